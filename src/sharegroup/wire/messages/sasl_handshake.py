"""SaslHandshake (API key 17).

Source: Kafka's message definitions SaslHandshakeRequest.json, SaslHandshakeResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, message, string


@message
class SaslHandshakeRequest(Message):
    """SaslHandshakeRequest, versions 0-1."""

    FLEXIBLE = 32_768

    mechanism: str = string()


@message
class SaslHandshakeResponse(Message):
    """SaslHandshakeResponse, versions 0-1."""

    FLEXIBLE = 32_768

    error_code: int = i16()
    mechanisms: Sequence[str] = array("string")
