"""A record as the application sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.core.delivery import Delivery

Headers = list[tuple[str, bytes | None]]


class Record:
    """One delivered record.

    Attributes:
        topic, partition, offset: where it is in the log.
        timestamp: milliseconds since 1970; -1: none.
        key, value: the bytes; None: null.
        headers: name and bytes, in order.
        delivery_count: 1 at the first delivery to this group, then 2, and so on.
    """

    __slots__ = (
        "_delivery",
        "delivery_count",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(  # positional: made half a million times a second
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        delivery_count: int,
        delivery: Delivery,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.delivery_count = delivery_count
        self._delivery = delivery

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition it is from."""
        return TopicPartition(self.topic, self.partition)

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC."""
        return datetime.fromtimestamp(self.timestamp / 1000, UTC)

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}, "
            f"delivery_count={self.delivery_count})"
        )
