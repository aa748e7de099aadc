"""Heartbeat (API key 12).

Source: Kafka's message definitions HeartbeatRequest.json, HeartbeatResponse.json.
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, i16, i32, message, string


@message
class HeartbeatRequest(Message):
    """HeartbeatRequest, versions 0-4."""

    FLEXIBLE = 4

    group_id: str = string()
    generation_id: int = i32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")


@message
class HeartbeatResponse(Message):
    """HeartbeatResponse, versions 0-4."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32("1+")
    error_code: int = i16()
