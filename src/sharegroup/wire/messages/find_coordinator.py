"""FindCoordinator (API key 10).

Source: Kafka's message definitions FindCoordinatorRequest.json, FindCoordinatorResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string


@message
class FindCoordinatorRequest(Message):
    """FindCoordinatorRequest, versions 0-6."""

    FLEXIBLE = 3

    key: str = string("0-3")
    key_type: int = i8("1+")
    coordinator_keys: Sequence[str] = array("string", "4+")


@message
class Coordinator(Message):
    """The coordinator of one key, or an error (from version 4 on)."""

    key: str = string("4+")
    node_id: int = i32("4+")
    host: str = string("4+")
    port: int = i32("4+")
    error_code: int = i16("4+")
    error_message: str | None = string("4+", nullable="4+")


@message
class FindCoordinatorResponse(Message):
    """FindCoordinatorResponse, versions 0-6."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32("1+")
    error_code: int = i16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = i32("0-3")
    host: str = string("0-3")
    port: int = i32("0-3")
    coordinators: Sequence[Coordinator] = array(Coordinator, "4+")
