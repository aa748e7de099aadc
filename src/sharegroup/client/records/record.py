"""A record as the application sees it, and what a poll returns: many of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol

from sharegroup.model.dates import DATE_MAX_MS, DATE_MIN_MS, NO_TIMESTAMP
from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    # Type checkers know the defaults (PEP 696); at run time they are not needed.
    from typing_extensions import TypeVar

    from sharegroup.client.core.delivery import Delivery

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers = list[tuple[str, bytes | None]]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Fields(Protocol):
    """The fields of one record in a record batch."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Headers: ...


class PlainFields(NamedTuple):
    """Fields that do not come straight from a batch, but were deserialized."""

    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


class Origin(Protocol):
    """Where records come from."""

    @property
    def topic_partition(self) -> TopicPartition: ...


O_co = TypeVar("O_co", bound=Origin, covariant=True)


class ReadRecord(Generic[O_co, K, V]):
    """One record as it was read.

    It is two pointers, so that half a million records a second are cheap to make: one to the
    decoder's fields, one to the batch or delivery that they come from.
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
        return self._fields.offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1: the record has no timestamp."""
        return self._fields.timestamp

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC.

        Raises:
            ValueError: the record has no timestamp, or no date can hold it: whoever wrote the
                record used another unit.
        """
        timestamp = self._fields.timestamp
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
        key: K | None = self._fields.key
        return key

    @property
    def value(self) -> V | None:
        """The bytes, or what the ``value_deserializer`` made of them; None: null."""
        value: V | None = self._fields.value
        return value

    @property
    def headers(self) -> Headers:
        """Name and bytes, in order."""
        return self._fields.headers

    def _shown(self) -> str:
        return (
            f"{self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}"
        )


class Record(ReadRecord["Delivery", K, V], Generic[K, V]):
    """One record that a share group delivered. In ``Record[K, V]``, K and V are the types that the
    deserializers return; bytes without deserializers.
    """

    __slots__ = ()

    @property
    def _delivery(self) -> Delivery:
        """The delivery of the record, which knows the acknowledgements of its records."""
        return self._origin

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery to this group, then 2, and so on."""
        return self._origin.delivery_count

    def __repr__(self) -> str:
        return f"Record({self._shown()}, delivery_count={self.delivery_count})"


class Span(NamedTuple):
    """Where the records of one fetched batch come from: a partition, under a leader's epoch."""

    topic_partition: TopicPartition
    leader_epoch: int


class ConsumerRecord(ReadRecord[Span, K, V], Generic[K, V]):
    """One record that a consumer read. In ``ConsumerRecord[K, V]``, K and V are the types that the
    deserializers return; bytes without deserializers.
    """

    __slots__ = ()

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the record; -1: not known."""
        return self._origin.leader_epoch

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
