"""A log of coordinators that all nodes share: each may write, and each replays it when another one
has written."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NoReturn

from sharegroup.broker.coordination.cluster_topic import ClusterTopic
from sharegroup.broker.coordination.log import (
    EndOfTransaction,
    KeyValue,
    LoggedEnd,
    LoggedRecord,
    ProducerEpoch,
)
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.shared_log import SharedLog
from sharegroup.upstream.state_log import Record, Submitted

logger = logging.getLogger("sharegroup.broker")


class SharedTopic:
    """One topic with one partition; implements ``log.CoordinatorTopic``. The last record of a key
    counts.

    Attributes:
        changed: called when another node has written.
    """

    def __init__(self, name: str, cluster: Cluster, wall_ms: Callable[[], int]) -> None:
        self.changed: Callable[[], None] = lambda: None
        self.partition_count = 1
        self.exists = True
        self._topic = ClusterTopic.shared(name, cluster, wall_ms)
        self._cluster = cluster
        self._wall_ms = wall_ms

    async def ensure(self) -> None:
        """See ``log.CoordinatorTopic``."""
        await self._topic.ensure()

    def partition(self, partition: int) -> SharedLogOfCoordinator:
        """Its one partition."""
        where = TopicPartition(self._topic.name, partition)
        return SharedLogOfCoordinator(
            self._topic, where, self._cluster, self._wall_ms, lambda: self.changed()
        )


class SharedLogOfCoordinator:
    """Implements ``log.InternalPartition``."""

    start_offset = 0
    """The cluster keeps it short."""
    record_count = 0

    def __init__(
        self,
        topic: ClusterTopic,
        where: TopicPartition,
        cluster: Cluster,
        wall_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self.name = f"{where.topic}-{where.partition}"
        self.exists = True
        self.left_out: list[tuple[int, int]] = []
        self._topic = topic
        self._changed = changed
        self._log = SharedLog(cluster, where, where.topic, wall_ms, self._take)

    @property
    def durable_end(self) -> int:
        """Behind the last record that was read."""
        return self._log.end

    async def ensure(self) -> None:
        """Make the topic unless it exists. Raises KafkaStorageError."""
        await self._topic.ensure()

    async def is_made(self) -> bool:
        """See ``log.CoordinatorLog``."""
        await self._topic.ensure()
        return True

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> Submitted:
        """See ``log.CoordinatorLog``."""
        return self._log.submit(records)

    def _take(self, record: Record, own: bool) -> None:
        if not own:
            self._changed()

    def submit_end(self, end: EndOfTransaction) -> NoReturn:
        """See ``log.CoordinatorLog``."""
        raise errors.UnsupportedVersion(f"{self.name} has no transactions")

    def check_producer(self, producer: ProducerEpoch) -> NoReturn:
        """See ``log.CoordinatorLog``."""
        raise errors.UnsupportedVersion(f"{self.name} has no transactions")

    async def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        """Every record, in order; from then on :attr:`SharedTopic.changed` is called."""
        self.left_out.clear()
        try:
            async for offset, key, value in self._log.read_all():
                yield LoggedRecord(offset, key, value)
        except errors.KafkaStorageError:
            raise
        except errors.KafkaError as error:
            raise errors.KafkaStorageError(f"{self.name} cannot be read: {error}") from error
        self._log.follow()

    async def delete_before(self, offset: int) -> int:
        """The cluster keeps it short."""
        return 0

    async def give_up(self) -> None:
        """Nobody owns it."""

    def leave_out(self, offset: int, error: errors.MalformedMessage) -> None:
        """See ``log.CoordinatorLog``."""
        self.left_out.append((offset, offset))
        logger.error("%s: the record at offset %d is left out: %s", self.name, offset, error)
