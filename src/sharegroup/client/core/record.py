"""Records as the application sees them, what a poll returns, and the acknowledgement of each.

A :class:`HeldDelivery` has one byte per offset, so that ``accept(record)`` is one assignment and a
whole batch is accepted by one call into C. Nothing here is sent: decided ranges are taken out once,
and then count as sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol
from uuid import UUID

from sharegroup.client.core.acknowledgements import (
    IN_TRANSACTION,
    KEPT,
    RENEWING,
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AckType,
    ranges_of,
)
from sharegroup.client.errors import IllegalState
from sharegroup.model.dates import DATE_MAX_MS, DATE_MIN_MS, NO_TIMESTAMP
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

if TYPE_CHECKING:
    # Type checkers know the defaults (PEP 696); at run time they are not needed.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers = list[tuple[str, bytes | None]]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_UNDECIDED: Final = bytes([UNDECIDED])
_KEPT: Final = bytes([KEPT])
_ACCEPT: Final = bytes([AckType.ACCEPT])
_RELEASE: Final = bytes([AckType.RELEASE])
_RENEW: Final = bytes([AckType.RENEW])
_RENEWING: Final = bytes([RENEWING])
_DECIDED: Final = bytes([AckType.GAP, AckType.ACCEPT, AckType.RELEASE, AckType.REJECT])
_TO_SENT: Final = bytes.maketrans(_DECIDED, bytes([SENT]) * len(_DECIDED))
_RENEW_RUN: Final = re.compile(_RENEW + b"+")
_NOT_SAID: Final = (UNDECIDED, KEPT)
_IN_TRANSACTION: Final = bytes([IN_TRANSACTION])
_HELD_RUN: Final = re.compile(b"[" + _UNDECIDED + _RENEWING + _KEPT + _IN_TRANSACTION + b"]+")


Fields = tuple[int, int, Any, Any, Headers]
"""Offset, timestamp in milliseconds, key, value and headers of one record. Key and value are bytes,
or what a deserializer made of them."""


class Origin(Protocol):
    """Where records come from."""

    @property
    def topic_partition(self) -> TopicPartition: ...


O_co = TypeVar("O_co", bound=Origin, covariant=True)


class ReadRecord(Generic[O_co, K, V]):
    """One record as it was read.

    It is two pointers, so that half a million records a second are cheap to make: one to the
    decoder's :data:`Fields`, one to the batch or delivery that they come from.
    """

    __slots__ = ("_fields", "_origin")

    def __init__(self, fields: Fields, origin: O_co) -> None:
        self._fields = fields
        self._origin = origin

    @property
    def topic(self) -> str:
        """The topic it is from."""
        return self._origin.topic_partition.topic

    @property
    def partition(self) -> int:
        """The number of its partition."""
        return self._origin.topic_partition.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition it is from."""
        return self._origin.topic_partition

    @property
    def offset(self) -> int:
        """Its place in the partition's log."""
        return self._fields[0]

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1: the record has no timestamp."""
        return self._fields[1]

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC.

        Raises:
            ValueError: the record has no timestamp, or no date can hold it: whoever wrote the
                record used another unit.
        """
        timestamp = self._fields[1]
        if timestamp == NO_TIMESTAMP:
            raise ValueError(f"{self.topic}-{self.partition}@{self.offset} has no timestamp")
        if not DATE_MIN_MS <= timestamp <= DATE_MAX_MS:
            raise ValueError(
                f"the timestamp {timestamp} of {self.topic}-{self.partition}@{self.offset} is "
                "no date in milliseconds since 1970: did its producer write another unit, such "
                "as microseconds? record.timestamp has the number"
            )
        return _EPOCH + timedelta(milliseconds=timestamp)

    @property
    def key(self) -> K | None:
        """The bytes, or what the ``key_deserializer`` made of them; None: null."""
        key: K | None = self._fields[2]
        return key

    @property
    def value(self) -> V | None:
        """The bytes, or what the ``value_deserializer`` made of them; None: null."""
        value: V | None = self._fields[3]
        return value

    @property
    def headers(self) -> Headers:
        """Name and bytes, in order."""
        return self._fields[4]

    def _shown(self) -> str:
        return (
            f"{self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}"
        )


class Record(ReadRecord["HeldDelivery", K, V], Generic[K, V]):
    """One record that a share group delivered. In ``Record[K, V]``, K and V are the types that the
    deserializers return; bytes without deserializers.
    """

    __slots__ = ()

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery to this group, then 2, and so on."""
        return self._origin.delivery_count

    def __repr__(self) -> str:
        return f"Record({self._shown()}, delivery_count={self.delivery_count})"


def delivery_of(record: Record[Any, Any]) -> HeldDelivery:
    """The delivery of a record, which knows the acknowledgements of its records. It is no part of
    the application's record."""
    return record._origin


class RecordSpan(NamedTuple):
    """Where the records of one fetched batch come from: a partition, under a leader's epoch, of the
    topic with an id. None: the id is not known."""

    topic_partition: TopicPartition
    leader_epoch: int
    topic_id: UUID | None = None


class ConsumerRecord(ReadRecord[RecordSpan, K, V], Generic[K, V]):
    """One record that a consumer read. In ``ConsumerRecord[K, V]``, K and V are the types that the
    deserializers return; bytes without deserializers.
    """

    __slots__ = ()

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the record; -1: not known."""
        return self._origin.leader_epoch

    @property
    def topic_id(self) -> UUID | None:
        """The id of the topic that it is from: a topic that is deleted and made anew has another
        one. None: the cluster does not say it."""
        return self._origin.topic_id

    def __repr__(self) -> str:
        return f"ConsumerRecord({self._shown()})"


R = TypeVar("R", bound=ReadRecord[Any, Any, Any])


def by_partition(records: Iterable[R]) -> dict[TopicPartition, list[R]]:
    """The records of each partition."""
    found: dict[TopicPartition, list[R]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(record)
    return found


class Records(list[Record[K, V]], Generic[K, V]):
    """What one poll returned: a list, in which the records of one partition ascend in offset."""

    __slots__ = ()

    def by_partition(self) -> dict[TopicPartition, list[Record[K, V]]]:
        """The records of each partition."""
        return by_partition(self)


class ConsumerRecords(list[ConsumerRecord[K, V]], Generic[K, V]):
    """What one poll of a consumer returned, as :class:`Records`."""

    __slots__ = ()

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """The records of each partition."""
        return by_partition(self)


class LeaseView(Protocol):
    """Whether the locks of a delivery are gone, and which node gave them."""

    lost: bool

    @property
    def node_id(self) -> int: ...


class HeldDelivery:
    """One acquired range, ``first`` … ``last``, and its records.

    Attributes:
        types: per offset an ``AckType``, ``UNDECIDED``, ``RENEWING``, ``KEPT``, ``IN_TRANSACTION``
            or ``SENT``. It begins as GAP everywhere; the decoder marks existing records as
            undecided.
        deadline: when the lock expires, in seconds of the event loop's time.
        error: why the record here cannot be read; its acknowledgement is decided, but the
            application may change it.
        held: the application holds it, or held it.
        request: the number of the fetch that brought it, among the requests of this process.
        keys: with order per key, the key of each record that has one, by offset; None: the group
            has no order.
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "error",
        "first",
        "held",
        "keys",
        "lease",
        "partition",
        "records",
        "request",
        "topic_partition",
        "types",
    )

    def __init__(
        self,
        partition: TopicIdPartition,
        topic_partition: TopicPartition,
        offsets: OffsetRange,
        delivery_count: int,
        lease: LeaseView,
        deadline: float,
        request: int = 0,
        keys: dict[int, bytes] | None = None,
    ) -> None:
        self.partition = partition
        self.topic_partition = topic_partition
        self.first = offsets.first
        self.delivery_count = delivery_count
        self.lease = lease
        self.deadline = deadline
        self.request = request
        self.keys = keys
        self.types = bytearray(offsets.size)
        self.records: list[Record[Any, Any]] = []
        self.error: SharegroupError | None = None
        self.held: object | None = None

    @property
    def last(self) -> int:
        """The last offset, included."""
        return self.first + len(self.types) - 1

    @property
    def undecided(self) -> bool:
        """Some record is not acknowledged yet."""
        return UNDECIDED in self.types

    @property
    def finished(self) -> bool:
        """No acknowledgement is left to send."""
        open_types = (UNDECIDED, AckType.RENEW, RENEWING, KEPT, IN_TRANSACTION)
        return not any(kind in self.types for kind in open_types)

    def part(self, first: int, last: int) -> HeldDelivery:
        """A delivery of only these offsets, all of them GAP, without records."""
        keys = self.keys
        if keys is not None:
            keys = {offset: key for offset, key in keys.items() if first <= offset <= last}
        return HeldDelivery(
            self.partition,
            self.topic_partition,
            OffsetRange(first, last),
            self.delivery_count,
            self.lease,
            self.deadline,
            self.request,
            keys,
        )

    def within(self, offsets: OffsetRange) -> list[Record[Any, Any]]:
        """The records that have one of these offsets."""
        return [one for one in self.records if offsets.first <= one.offset <= offsets.last]

    def forget_records(self) -> None:
        """Drop the records when they are no longer needed. Records and delivery refer to each
        other: otherwise millions of them would wait for the garbage collector.
        """
        self.records = []

    def mark(self, first: int, last: int, kind: int) -> None:
        """Set all of these offsets to ``kind``."""
        start = first - self.first
        self.types[start : last - self.first + 1] = bytes([kind]) * (last - first + 1)

    def is_behind(self, offset: int, key: bytes, after: int) -> bool:
        """With order per key: whether the record at ``offset`` has this key, comes after the record
        at ``after``, and is not acknowledged yet."""
        return (
            offset > after
            and self.keys is not None
            and self.keys.get(offset) == key
            and self.types[offset - self.first] in _NOT_SAID
        )

    def drop(self, offsets: Collection[int], kind: int) -> None:
        """Keep the records at these offsets from the application, with ``kind`` as their type."""
        for offset in offsets:
            self.types[offset - self.first] = kind
        gone = set(offsets)
        self.records = [one for one in self.records if one.offset not in gone]

    def decide(self, offset: int, kind: AckType) -> None:
        """Acknowledge one record with ``kind``, which can be changed until it is sent.

        Raises:
            IllegalState: the acknowledgement was sent, or the record was never delivered.
        """
        index = offset - self.first
        now = self.types[index]
        if now == AckType.GAP:
            raise IllegalState(f"offset {offset} of {self.topic_partition} was not delivered")
        if now == IN_TRANSACTION:
            raise IllegalState(f"offset {offset} of {self.topic_partition} is in a transaction")
        if now == SENT:
            raise IllegalState(f"offset {offset} of {self.topic_partition} was acknowledged before")
        if now == RENEWING:
            raise IllegalState(
                f"offset {offset} of {self.topic_partition} must be returned again first"
            )
        if kind is AckType.RENEW and self.error is not None:
            raise IllegalState(f"offset {offset} of {self.topic_partition} cannot be renewed")
        self.types[index] = kind

    def hand_over(self, offset: int) -> None:
        """Let a transaction acknowledge one record. Raises IllegalState as :meth:`decide`."""
        self.decide(offset, AckType.ACCEPT)
        self.types[offset - self.first] = IN_TRANSACTION

    def accept_undecided(self) -> None:
        """ACCEPT for all undecided records."""
        self.types = self.types.replace(_UNDECIDED, _ACCEPT)

    def accept_first(self, count: int) -> None:
        """As :meth:`accept_undecided`, for the first ``count`` records only."""
        if count >= len(self.records):
            self.accept_undecided()
            return
        end = self.records[count].offset - self.first
        self.types[:end] = self.types[:end].replace(_UNDECIDED, _ACCEPT)

    def release_given(self) -> None:
        """RELEASE for undecided records that the application was given."""
        self.types = self.types.replace(_UNDECIDED, _RELEASE)

    def release_undecided(self) -> None:
        """RELEASE for all records without a final acknowledgement."""
        for open_type in (_UNDECIDED, _RENEW, _RENEWING, _KEPT):
            self.types = self.types.replace(open_type, _RELEASE)

    def keep_from(self, offset: int) -> None:
        """The undecided records from this offset on were not given to the application."""
        at = offset - self.first
        self.types[at:] = self.types[at:].replace(_UNDECIDED, _KEPT)

    def give_kept(self) -> None:
        """The application is given the kept records."""
        self.types = self.types.replace(_KEPT, _UNDECIDED)

    def release_kept(self) -> None:
        """RELEASE for the kept records."""
        self.types = self.types.replace(_KEPT, _RELEASE)

    def take_decided(self) -> list[AcknowledgedRange]:
        """The ranges that can be sent now, without renewals. From here on they count as sent."""
        types = self.types.replace(_RENEW, _RENEWING) if _RENEW in self.types else self.types
        ranges = ranges_of(self.first, types)
        self.types = self.types.translate(_TO_SENT)
        return ranges

    def take_renewals(self) -> list[OffsetRange]:
        """The offsets to renew. They cannot be acknowledged until :meth:`renewed`."""
        ranges = self._ranges(_RENEW_RUN)
        if ranges:
            self.types = self.types.replace(_RENEW, _RENEWING)
        return ranges

    def held_ranges(self) -> list[OffsetRange]:
        """The offsets whose locks the application still needs."""
        return self._ranges(_HELD_RUN)

    def _ranges(self, run: re.Pattern[bytes]) -> list[OffsetRange]:
        return [
            OffsetRange(self.first + match.start(), self.first + match.end() - 1)
            for match in run.finditer(self.types)
        ]
