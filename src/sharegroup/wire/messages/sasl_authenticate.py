"""SaslAuthenticate (API key 36).

Source: Kafka's message definitions SaslAuthenticateRequest.json, SaslAuthenticateResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, data, i16, i64, message, string


@message
class SaslAuthenticateRequest(Message):
    """SaslAuthenticateRequest, versions 0-2."""

    FLEXIBLE = 2

    auth_bytes: bytes = data()

    def __repr__(self) -> str:
        """Without the bytes: they may hold a password."""
        return f"SaslAuthenticateRequest({len(self.auth_bytes)} bytes)"


@message
class SaslAuthenticateResponse(Message):
    """SaslAuthenticateResponse, versions 0-2."""

    FLEXIBLE = 2

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    auth_bytes: bytes = data()
    session_lifetime_ms: int = i64("1+")
