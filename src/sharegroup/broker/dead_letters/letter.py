"""What a dead letter says: the record's origin, why it failed, and the record itself if the group
wants a copy.

The headers are those of Kafka class ShareGroupDLQStateManager (KIP-1191). ``cause``, ``member``,
``failed.ms`` and ``timestamp`` are ours: Kafka's message has only two texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from sharegroup.wire.record import Header, RecordContent, StoredRecord

HEADER_PREFIX: Final = "__dlq.errors."
_PREFIX: Final = HEADER_PREFIX.encode()
_RENAMED: Final = {
    EXPIRES_AT.encode(): f"{HEADER_PREFIX}expires.at".encode(),
    DELIVER_AT.encode(): f"{HEADER_PREFIX}deliver.at".encode(),
}
"""What the letter calls headers of its record that a broker obeys."""
_KAFKAS_MESSAGES: Final = {
    Cause.REJECTED: "Offset rejected by client.",
    Cause.RELEASED: "Offset delivery count exceeded the threshold.",
    Cause.LOCK_EXPIRED: "Offset delivery count exceeded the threshold.",
    Cause.SESSION_ENDED: "Offset delivery count exceeded the threshold.",
    Cause.OPERATOR: "Offset given up by an operator.",
    Cause.EXPIRED: "Offset expired.",
}


def letter_of(
    topic: str,
    partition: int,
    group_id: str,
    offset: int,
    dead: DeadRecords,
    original: StoredRecord | None,
) -> RecordContent:
    """The dead letter of the record at ``offset``, which is one of ``dead``.

    Args:
        topic: the record's topic; its id as text if the topic is gone.
        original: the record, to be copied; None for a letter without a copy.
    """
    said: dict[str, str | int] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "group": group_id,
    }
    if dead.delivery_count > 0:
        said["delivery.count"] = dead.delivery_count
    message = dead.reason or _KAFKAS_MESSAGES.get(dead.cause)
    if message:
        said["message"] = message
    said["cause"] = dead.cause.word
    if dead.member_id:
        said["member"] = dead.member_id
    if dead.failed_ms >= 0:
        said["failed.ms"] = dead.failed_ms
    if original is None:
        return RecordContent(None, None, list(_headers(said.items())))
    said["timestamp"] = original.timestamp_ms
    own = [_own(one) for one in original.content.headers if not one[0].startswith(_PREFIX)]
    return original.content._replace(headers=[*own, *_headers(said.items())])


def _own(header: Header) -> Header:
    """A header of the record, as its letter has it: a letter does not expire with its record, and
    does not wait as its record did."""
    return _RENAMED.get(header[0], header[0]), header[1]


def _headers(said: Iterable[tuple[str, str | int]]) -> Iterable[Header]:
    return ((f"{HEADER_PREFIX}{name}".encode(), str(text).encode()) for name, text in said)
