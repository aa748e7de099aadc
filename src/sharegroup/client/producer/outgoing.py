"""An outgoing record: the arguments of ``send``, checked at the call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from sharegroup.records.message_ids import MESSAGE_ID

Headers = list[tuple[str, bytes | None]]

TimeGiven: TypeAlias = datetime | int | None
"""A time with its zone, or milliseconds since 1970."""

RECORD_OVERHEAD_BYTES: Final = 24
"""What a record costs besides its key, value and headers: an upper bound, from Kafka's class
DefaultRecord.
"""
_HEADER_OVERHEAD_BYTES: Final = 10
_TIMESTAMP_MAX_MS: Final = 2**63 - 1
_TIME_MAX_MS: Final = 10**18 - 1
"""A header says times in at most 18 digits."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class OutgoingRecord(NamedTuple):
    """One record: bytes, where to, and ``size``, an upper bound of what it takes in a batch."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None
    size: int


def outgoing_record(
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None,
    headers: Sequence[tuple[str, bytes | None]],
    partition: int | None,
    timestamp_ms: int | None,
    message_id: bytes | str | None = None,
    expires_at: TimeGiven = None,
    deliver_at: TimeGiven = None,
) -> OutgoingRecord:
    """The record; text is encoded as UTF-8.

    Args:
        message_id: what tells its message apart; a header after ``headers`` says so.
        expires_at: when it is worthless; a header after that says so.
        deliver_at: it is not to be delivered before; its last header says so.

    Raises:
        TypeError: an argument has the wrong type; the text says which, and what to write.
        ValueError: the topic's name is empty, a number is negative or too large, or the record
            would be worthless before it is delivered.
    """
    if type(topic) is not str or not topic or not topic.isascii():
        _check_topic(topic)
    if type(value) is not bytes and value is not None:
        value = _bytes_of("value", value)
    if type(key) is not bytes and key is not None:
        key = _bytes_of("key", key)
    if partition is not None or timestamp_ms is not None:
        _check_numbers(partition, timestamp_ms)
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    pairs: Headers = []
    if headers != ():
        pairs = _checked_headers(headers)
    if message_id is not None:
        pairs.append((MESSAGE_ID, _checked_id(message_id)))
    if expires_at is not None or deliver_at is not None:
        pairs += _times(expires_at, deliver_at)
    for name, data in pairs:
        size += _HEADER_OVERHEAD_BYTES + (len(name) if name.isascii() else len(name.encode()))
        if data is not None:
            size += len(data)
    return OutgoingRecord(topic, key, value, pairs, partition, timestamp_ms, size)


def _times(expires_at: TimeGiven, deliver_at: TimeGiven) -> Headers:
    expires_ms = None if expires_at is None else _milliseconds("expires_at", expires_at)
    deliver_ms = None if deliver_at is None else _milliseconds("deliver_at", deliver_at)
    if expires_ms is not None and deliver_ms is not None and expires_ms <= deliver_ms:
        raise ValueError(
            f"deliver_at ({deliver_ms}) is not before expires_at ({expires_ms}): the record would "
            "be worthless when it is delivered"
        )
    named = ((EXPIRES_AT, expires_ms), (DELIVER_AT, deliver_ms))
    return [(name, str(ms).encode()) for name, ms in named if ms is not None]


def _bytes_of(what: str, given: object) -> bytes:
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(
        f"{what} is {_shown(given)}: a record's {what} is bytes, str or None, so encode it, "
        f"for instance with json.dumps()"
    )


def _checked_id(message_id: object) -> bytes:
    found = _bytes_of("message_id", message_id)
    if not found:
        raise ValueError("message_id is empty: leave it out, or write what tells the message apart")
    return found


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"topic is {_shown(topic)}: write the topic's name, a str")
    if not topic:
        raise ValueError("topic is empty: write the topic's name")
    if not topic.isascii():
        raise ValueError(f"topic is {topic!r}: a name has ASCII letters, digits, '.', '_' and '-'")


def _check_numbers(partition: object, timestamp_ms: object) -> None:
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"partition is {_shown(partition)}: write its number, an int")
    if timestamp_ms is None:
        return
    if not isinstance(timestamp_ms, int):
        raise TypeError(
            f"timestamp_ms is {_shown(timestamp_ms)}: write whole milliseconds since 1970, an int"
        )
    if not 0 <= timestamp_ms <= _TIMESTAMP_MAX_MS:
        raise ValueError(f"timestamp_ms is {timestamp_ms}: write milliseconds since 1970")


def _milliseconds(name: str, given: object) -> int:
    """A time as milliseconds since 1970."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(f"{name} is {given}: write its time zone, as in datetime.now(UTC)")
        given = (given - _EPOCH) // timedelta(milliseconds=1)
    if not isinstance(given, int):
        raise TypeError(
            f"{name} is {_shown(given)}: write a datetime, or whole milliseconds since 1970, an int"
        )
    if not 0 <= given <= _TIME_MAX_MS:
        raise ValueError(f"{name} is {given}: write milliseconds since 1970")
    return given


def _checked_headers(headers: object) -> Headers:
    example = 'write a list of pairs, as in [("trace", b"7")]'
    if isinstance(headers, dict):
        raise TypeError(f"headers is a dict: {example}, or list(headers.items())")
    if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
        raise TypeError(f"headers is {_shown(headers)}: {example}")
    pairs: Headers = []
    for pair in headers:
        if type(pair) is tuple and len(pair) == 2:  # nearly all: the checks below take longer
            name, value = pair
            if type(name) is str and (value is None or type(value) is bytes):
                pairs.append(pair)
                continue
        if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
            raise TypeError(f"{_shown(pair)} is among the headers: {example}")
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"{_shown(name)} is the name of a header: a name is a str")
        if isinstance(value, bytearray | memoryview):
            value = bytes(value)
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"the header {name!r} is {_shown(value)}: a header is bytes or None")
        pairs.append((name, value))
    return pairs


def _shown(given: object) -> str:
    """The value, short enough for a sentence, and its type."""
    text = repr(given)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    kind = type(given).__name__
    return text if given is None else f"{text} ({kind})"
