"""A record as the application sees it, and what a poll returns: many of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.core.delivery import Delivery

Headers = list[tuple[str, bytes | None]]


class Fields(Protocol):
    """What a record batch says of one record."""

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
    """Fields that are not read from a batch: deserialized ones."""

    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


class Record:
    """One delivered record.

    Two pointers, so that making half a million of them a second costs little: to the fields as the
    decoder made them, and to the delivery, which knows where they come from and what was said of
    them.
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
    def key(self) -> Any:
        """The bytes, or what the ``key_deserializer`` made of them; None: null."""
        return self._fields.key

    @property
    def value(self) -> Any:
        """The bytes, or what the ``value_deserializer`` made of them; None: null."""
        return self._fields.value

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


class Records(list[Record]):
    """What one poll returned: a list, in which the records of one partition ascend in offset."""

    __slots__ = ()

    def by_partition(self) -> dict[TopicPartition, list[Record]]:
        """The records of each partition."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in self:
            found.setdefault(record.topic_partition, []).append(record)
        return found
