"""An internal topic as a log of keyed records: append what a core machine decided, replay it at
start.

The topic is made when the first record is written, so that a broker that nobody uses has no files
for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sharegroup.model.errors import CorruptMessage, MalformedMessage
from sharegroup.wire.batch import decode_batch, encode_batch, end_offset_of

if TYPE_CHECKING:
    from sharegroup.broker.configs.broker import BrokerConfig
    from sharegroup.broker.topics import Topics
    from sharegroup.model.environment import Clock
    from sharegroup.storage.partition_log import LocalPartitionLog

logger = logging.getLogger("sharegroup.broker")

SHARE_GROUP_STATE: Final = "__share_group_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({SHARE_GROUP_STATE, CONSUMER_OFFSETS})

READ_BYTES: Final = 4 << 20
"""Bytes per read at replay: large enough that reading is not the cost."""

KeyValue = tuple[bytes, bytes | None]


def internal_settings(name: str, config: BrokerConfig) -> dict[str, str]:
    """Topic settings that the broker gives an internal topic, as Kafka does; its segments may be
    smaller than a client's topic may have them."""
    if name == CONSUMER_OFFSETS:
        return {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
        }
    # Records of the state topic are deleted by offset (pruning), never by age or size.
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "internal.segment.bytes": str(
            config.integer("share.coordinator.state.topic.segment.bytes")
        ),
    }


class InternalTopic:
    """One internal topic of this broker."""

    def __init__(self, name: str, partitions: int, topics: Topics, clock: Clock) -> None:
        self.name = name
        self._partitions_wanted = partitions
        self._topics = topics
        self._clock = clock
        self._making = asyncio.Lock()
        self._made = False

    @property
    def exists(self) -> bool:
        """Whether anything has been written to it."""
        return self._topics.find(self.name) is not None

    @property
    def partition_count(self) -> int:
        """How many partitions it has, or will have."""
        topic = self._topics.find(self.name)
        return self._partitions_wanted if topic is None else topic.partition_count

    async def ensure(self) -> None:
        """Make the topic unless it is there.

        Raises:
            KafkaStorageError: the disk failed.
        """
        if self._made:
            return
        async with self._making:  # half made it exists, without all of its logs
            if not self.exists:
                await self._topics.create_internal(self.name, self._partitions_wanted)
            self._made = True

    def write(self, partition: int, records: Sequence[KeyValue]) -> int:
        """Write records as one batch to the topic, which must exist; the end offset to wait for
        with :meth:`wait_durable`. A batch of ours may be larger than a client's.

        Raises:
            KafkaStorageError: the disk failed.
        """
        batch = encode_batch(records, timestamp_ms=self._clock.wall_ms())
        return self.log(partition).append_trusted(batch).last_offset + 1

    async def wait_durable(self, partition: int, end_offset: int) -> None:
        """Return when all below ``end_offset`` is durable.

        Raises:
            KafkaStorageError: it never will be.
        """
        await self.log(partition).wait_durable(end_offset)

    def log(self, partition: int) -> LocalPartitionLog:
        """The log of one partition of the topic, which must exist."""
        return self._topics.log(self.name, partition)

    async def append_durable(self, partition: int, records: Sequence[KeyValue]) -> None:
        """Write records as one batch, to a topic made when need be, and return when they are
        durable."""
        await self.ensure()
        await self.wait_durable(partition, self.write(partition, records))

    async def settle(self, partition: int | None = None) -> None:
        """Return when everything appended (to one partition) is durable, and so is part of a
        replay that begins now.

        Raises:
            KafkaStorageError: it never will be.
        """
        wanted = range(self.partition_count) if partition is None else (partition,)
        logs = [self.log(index) for index in wanted]
        while any(log.high_watermark < log.log_end_offset for log in logs):
            for log in logs:
                await log.wait_durable(log.log_end_offset)

    async def replay(self, partition: int) -> AsyncIterator[tuple[int, bytes, bytes | None]]:
        """Every (offset, key, value) of a partition, in order, except what is damaged on disk: that
        is logged and left out, since one bad sector must not keep a broker from its other groups.
        """
        if not self.exists:
            return
        log = self.log(partition)
        offset = log.log_start_offset
        while offset < log.high_watermark:
            readable = log.after_damage(offset)
            if readable > offset:
                self._report_lost(partition, offset, readable)
                offset = readable
                continue
            try:
                data = (await log.read(offset, READ_BYTES)).data
            except CorruptMessage:
                if log.after_damage(offset) == offset:
                    raise
                continue  # this read has found the damage
            for at, _, key, value in decode_batch(data):
                if at >= offset and key is not None:
                    yield at, key, value
            if not data:
                return
            offset = end_offset_of(data)

    @contextmanager
    def passing_over(self, partition: int, offset: int) -> Iterator[None]:
        """What is malformed in the record at ``offset`` is said, and left out like damage."""
        try:
            yield
        except MalformedMessage as error:
            logger.error("%s-%d: the record at offset %d is left out: %s", self.name, partition,
                         offset, error)  # fmt: skip

    def _report_lost(self, partition: int, first: int, end: int) -> None:
        logger.error(
            "%s-%d: offsets %d to %d are damaged; what they said of share groups is lost",
            self.name,
            partition,
            first,
            end - 1,
        )
