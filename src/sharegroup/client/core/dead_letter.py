"""What a dead letter says (KIP-1191): written by our broker, by a worker of ours, or by Apache
Kafka 4.4, whose letters have no cause, no member and no time of failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol

from sharegroup.client.core.record import Headers
from sharegroup.model.ids import TopicPartition
from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT

HEADER_PREFIX: Final = "__dlq.errors."
REDRIVEN: Final = "sharegroup.redriven"
COPIES_MAX: Final = 20
"""A redrive tells of so many records where they stand now."""
"""The header of a redriven record: how often it was redriven. It shows a record that dies again."""
TOPIC: Final = f"{HEADER_PREFIX}topic"
"""This header, PARTITION and OFFSET say which record a letter is about."""
PARTITION: Final = f"{HEADER_PREFIX}partition"
OFFSET: Final = f"{HEADER_PREFIX}offset"
_GROUP: Final = f"{HEADER_PREFIX}group"
_CAUSE: Final = f"{HEADER_PREFIX}cause"
_EXCEPTION: Final = f"{HEADER_PREFIX}exception"
_MESSAGE: Final = f"{HEADER_PREFIX}message"
_MEMBER: Final = f"{HEADER_PREFIX}member"
_DELIVERIES: Final = f"{HEADER_PREFIX}delivery.count"
_FAILED: Final = f"{HEADER_PREFIX}failed.ms"
_TIMESTAMP: Final = f"{HEADER_PREFIX}timestamp"
_NAMES: Final = frozenset(
    {TOPIC, PARTITION, OFFSET, _GROUP, _CAUSE, _EXCEPTION}
    | {_MESSAGE, _MEMBER, _DELIVERIES, _FAILED, _TIMESTAMP}
)
_DIGITS_MAX: Final = 18
_SOURCES_MAX: Final = 10_000
"""Partitions whose names are remembered, so that each letter need not make its own."""


class StoredRecord(Protocol):
    """A record as it was read from a log."""

    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class DeadLetter:
    """A record that a share group has given up, and why. Made by :class:`LetterReader`.

    What the letter says is decoded when it is asked for, because a redrive asks for little of it.

    Attributes:
        source: the partition that the record is from, and ``offset`` its place there.
        key, value, headers: of the record itself; empty if the letter :attr:`has_copy` not.
        has_copy: whether the letter has the record; otherwise only the source topic may have it.
        is_whole: whether it has the record's headers, too. Apache Kafka copies key and value only.
        place: the partition where the letter itself is, and ``place_offset`` its offset there.
    """

    __slots__ = (
        "_said",
        "_written_ms",
        "has_copy",
        "headers",
        "is_whole",
        "key",
        "offset",
        "place",
        "place_offset",
        "source",
        "value",
    )

    def __init__(
        self,
        letter: StoredRecord,
        said: Mapping[str, bytes | None],
        source: TopicPartition,
        offset: int,
    ) -> None:
        self._said = said
        self._written_ms = letter.timestamp
        self.source = source
        self.offset = offset
        self.place = letter.topic_partition
        self.place_offset = letter.offset
        self.key = letter.key
        self.value = letter.value
        self.headers = [one for one in letter.headers if one[0] not in _NAMES]
        if self.headers:  # others may add names
            self.headers = [one for one in self.headers if not one[0].startswith(HEADER_PREFIX)]
        # Only ours have the record's own timestamp.
        self.is_whole = _TIMESTAMP in said or bool(self.headers)
        self.has_copy = self.is_whole or self.key is not None or self.value is not None

    def __repr__(self) -> str:
        return f"<DeadLetter of {self.source}@{self.offset}: {self.cause}, {self.message}>"

    def with_record(self, record: StoredRecord) -> DeadLetter:
        """The letter with key, value and headers of the record itself. If the letter has a copy of
        another record, because the topic was made anew, it stays as it is."""
        if self.has_copy and (self.key, self.value) != (record.key, record.value):
            return self
        made = copy(self)
        made.key, made.value, made.headers = record.key, record.value, record.headers
        made.has_copy = made.is_whole = True
        return made

    @property
    def failure(self) -> tuple[TopicPartition, int, bytes] | None:
        """What two letters have in common that a broker has written about one failure, because it
        was killed meanwhile; None: Apache Kafka's letters do not tell."""
        failed = self._said.get(_FAILED)
        return None if failed is None else (self.source, self.offset, failed)

    @property
    def topic(self) -> str:
        """The topic that the record is from."""
        return self.source.topic

    @property
    def partition(self) -> int:
        """The number of the partition that it is from."""
        return self.source.partition

    @property
    def group(self) -> str:
        """The group that has given it up."""
        return _text(self._said[_GROUP]) or ""

    @property
    def cause(self) -> str | None:
        """``rejected``, ``lock-expired`` …, or the type of a worker's exception; None: unknown."""
        return _text(self._said.get(_CAUSE) or self._said.get(_EXCEPTION))

    @property
    def message(self) -> str | None:
        """What its consumer, or Apache Kafka, said; None: nothing."""
        return _text(self._said.get(_MESSAGE))

    @property
    def member(self) -> str | None:
        """The member that had it last; None: not said."""
        return _text(self._said.get(_MEMBER))

    @property
    def deliveries(self) -> int | None:
        """How often it was delivered; None: not said."""
        return _number(self._said.get(_DELIVERIES))

    @property
    def failed_ms(self) -> int:
        """When it failed, in ms since 1970; if that is not said, when the letter was written."""
        failed = _number(self._said.get(_FAILED))
        return self._written_ms if failed is None else failed


class LetterChoice(Protocol):
    """Says which letters are meant.

    Attributes:
        needs_record: whether it asks for what only the record has, and not each letter.
    """

    @property
    def needs_record(self) -> bool: ...
    def chooses(self, letter: DeadLetter, now_ms: int) -> bool:
        """Whether this letter is meant."""
        ...


class LetterReader:
    """Finds the letters of one group."""

    def __init__(self, group: str) -> None:
        self._group = group.encode()
        self._sources: dict[tuple[bytes | None, bytes | None], TopicPartition] = {}

    def letter_in(self, record: StoredRecord) -> DeadLetter | None:
        """The letter in a record; None: it is another group's, or no letter at all."""
        said = dict(record.headers)
        if said.get(_GROUP) != self._group:
            return None
        offset = _number(said.get(OFFSET))
        named = said.get(TOPIC), said.get(PARTITION)
        source = self._sources.get(named) or self._source(*named)
        if offset is None or source is None:
            return None
        return DeadLetter(record, said, source, offset)

    def _source(self, topic: bytes | None, partition: bytes | None) -> TopicPartition | None:
        number = _number(partition)
        if not topic or number is None:
            return None
        if len(self._sources) >= _SOURCES_MAX:
            self._sources.clear()
        source = TopicPartition(topic.decode(errors="replace"), number)
        self._sources[topic, partition] = source
        return source


def redriven_headers(headers: Headers) -> Headers:
    """The headers of a record that is redriven: its own, and the count. It does not expire again,
    and waits for no time: whoever redrives it wants it handled."""
    if not headers:
        return [(REDRIVEN, b"1")]
    times = 0
    kept = [header for header in headers if header[0] not in (REDRIVEN, EXPIRES_AT, DELIVER_AT)]
    if len(kept) < len(headers):
        counts = (_number(data) or 0 for name, data in headers if name == REDRIVEN)
        times = max(counts, default=0)
    return [*kept, (REDRIVEN, str(times + 1).encode())]


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersHandled:
    """What became of the letters of a group that were looked at.

    Attributes:
        done: letters that were redriven, or purged; with ``dry_run``, that would be.
        twins: letters about a failure of which another letter is done, by this call or an earlier
            one; they are done now, too.
        gone: letters without a copy whose record the source topic has no longer: left as they are.
        homeless: letters whose goal does not exist: left as they are.
        passed: letters that ``where`` does not want: left as they are.
        others: records of the topic that are no letters of the group.
        copies: where the first ``COPIES_MAX`` of the redriven records stand now: partition and
            offset.
    """

    done: int = 0
    twins: int = 0
    gone: int = 0
    homeless: int = 0
    passed: int = 0
    others: int = 0
    copies: tuple[tuple[TopicPartition, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersProgress:
    """How far a redrive or a purge is. ``step``: ``begun`` before the first letter; ``sent`` when
    letters are under way in an open transaction; ``committed`` when they are done for good.
    """

    step: str
    done: int
    records_read: int
    records: int
    """Records to read in all, at most."""


def _number(data: bytes | None) -> int | None:
    if not data or not data.isdigit() or len(data) > _DIGITS_MAX:
        return None
    return int(data)


def _text(data: bytes | None) -> str | None:
    return None if not data else data.decode(errors="replace")
