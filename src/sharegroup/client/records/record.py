"""A record as the application sees it, and what a poll returns: many of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

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


class Record(Generic[K, V]):
    """One delivered record. In ``Record[K, V]``, K and V are the types that the deserializers
    return; bytes without deserializers.

    It is two pointers, so that half a million records a second are cheap to make: one to the
    decoder's fields, one to the delivery, which knows their partition and acknowledgements.
    """

    __slots__ = ("_delivery", "_fields")

    def __init__(self, fields: Fields, delivery: Delivery) -> None:
        self._fields = fields
        self._delivery = delivery

    @property
    def topic(self) -> str:
        """The topic it is from."""
        return self._delivery.topic_partition.topic

    @property
    def partition(self) -> int:
        """The number of its partition."""
        return self._delivery.topic_partition.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition it is from."""
        return self._delivery.topic_partition

    @property
    def offset(self) -> int:
        """Its place in the partition's log."""
        return self._fields.offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1: none."""
        return self._fields.timestamp

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC."""
        return datetime.fromtimestamp(self._fields.timestamp / 1000, UTC)

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

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery to this group, then 2, and so on."""
        return self._delivery.delivery_count

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}, "
            f"delivery_count={self.delivery_count})"
        )


class Records(list[Record[K, V]], Generic[K, V]):
    """What one poll returned: a list, in which the records of one partition ascend in offset."""

    __slots__ = ()

    def by_partition(self) -> dict[TopicPartition, list[Record[K, V]]]:
        """The records of each partition."""
        found: dict[TopicPartition, list[Record[K, V]]] = {}
        for record in self:
            found.setdefault(record.topic_partition, []).append(record)
        return found
