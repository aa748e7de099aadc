"""Topics of the cluster that keep what a broker in front of it knows: their partitions are logs of
coordinators, as those of ``internal_topic`` are in a data folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn, TypeAlias

from sharegroup.broker.coordination.log import (
    EndOfTransaction,
    KeyValue,
    LoggedEnd,
    LoggedRecord,
    ProducerEpoch,
)
from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX
from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import TopicMetadata
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.state_log import StateLog, Submitted

logger = logging.getLogger("sharegroup.broker")

Turn: TypeAlias = Callable[[TopicPartition], Awaitable[None]]

REPLICAS: Final = 3
"""Of a topic that is made, if the cluster has so many brokers; all but one must have a write."""
KNOWN_LOOKS: Final = 100
KNOWN_S: Final = 0.1
"""So often, and with such a pause, a topic that was just made is looked for."""
_AS_WRITTEN: Final = {"max.message.bytes": "16777216", "compression.type": "producer"}
CLEAN: Final = {"unclean.leader.election.enable": "false"}
"""Of every topic of ours: an unclean election would lose what was confirmed."""
_MAY_NOT: Final = (errors.InvalidConfig, errors.PolicyViolation)
"""Who runs a cluster for others may let nobody decide on elections: CLEAN is refused so."""
OWNED: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    **_AS_WRITTEN,
}
"""Settings of a topic that one node writes at a time, and keeps short by itself."""
COMPACTED: Final = {"cleanup.policy": "compact", **_AS_WRITTEN}
"""Of one that nobody owns, and where the last record of a key counts."""
PASSING: Final = {"cleanup.policy": "delete", "retention.ms": "3600000", **_AS_WRITTEN}
"""Of one whose records are needed by nobody after some seconds."""


class ClusterTopic:
    """One topic; implements ``log.CoordinatorTopic``.

    Args:
        name: as of the topic in a data folder.
        me: node id and incarnation.
        turn: returns when this node may claim a partition. Raises NotCoordinator: another one has
            it.
    """

    def __init__(
        self,
        name: str,
        partitions: int,
        cluster: Cluster,
        me: tuple[int, bytes],
        wall_ms: Callable[[], int],
        turn: Turn,
        configs: Mapping[str, str] = OWNED,
    ) -> None:
        self.name = IN_CLUSTER_PREFIX + name.removeprefix("__").removeprefix("sharegroup_")
        self.partition_count = partitions
        self.exists = True
        """It is made before it is read: :meth:`ensure`."""
        self._cluster = cluster
        self._me = me
        self._wall_ms = wall_ms
        self.turn = turn
        self._configs = configs
        self._making = asyncio.Lock()
        self._made = False

    @classmethod
    def shared(
        cls,
        name: str,
        cluster: Cluster,
        wall_ms: Callable[[], int],
        configs: Mapping[str, str] = COMPACTED,
    ) -> ClusterTopic:
        """A topic with one partition, which nobody owns (``upstream/shared_log.py``)."""
        return cls(name, 1, cluster, (-1, b""), wall_ms, _no_turn, configs)

    async def ensure(self) -> None:
        """Make the topic unless it exists.

        Raises:
            KafkaStorageError: the cluster refuses, or it has another number of partitions.
        """
        if self._made:
            return
        async with self._making:
            if not self._made:
                try:
                    await self._make()
                except errors.KafkaError as error:
                    raise errors.KafkaStorageError(f"{self.name}: {error}") from error
                self._made = True

    async def _make(self) -> None:
        try:
            topic = await self._cluster.topic(self.name)
        except errors.UnknownTopicOrPartition:
            await self._create()
            topic = await self._known()
        except errors.LeaderNotAvailable:  # another node has just made it
            topic = await self._known()
        else:
            await self._correct()
        if len(topic.partitions) != self.partition_count:
            raise errors.InvalidPartitions(
                f"it has {len(topic.partitions)} partitions, and this broker wants "
                f"{self.partition_count}: another setting or an earlier version, whose state "
                "this one does not read, has made it"
            )
        if (few := too_few_replicas(topic, len(self._cluster.metadata.nodes))) is not None:
            logger.warning("%s: %s", self.name, few)

    async def _create(self) -> None:
        replicas = min(REPLICAS, len(self._cluster.metadata.nodes))
        in_sync = {"min.insync.replicas": str(max(1, replicas - 1))}
        create = partial(
            Admin(cluster=self._cluster).create_topics,
            self.name,
            partitions=self.partition_count,
            replication_factor=replicas,
        )
        with suppress(errors.TopicAlreadyExists):  # another node has just made it
            try:
                await create(configs={**self._configs, **in_sync, **CLEAN})
            except _MAY_NOT:
                await create(configs={**self._configs, **in_sync})

    async def _correct(self) -> None:
        """A topic that was made with the cluster's defaults would forget our state after a week."""
        admin = Admin(cluster=self._cluster)
        found = await admin.describe_configs("topic", self.name)
        for configs in (self._configs, CLEAN):
            wrong = {
                name: value
                for name, value in configs.items()
                if name in found and found[name].value != value
            }
            if wrong:
                await self._alter(admin, wrong)

    async def _alter(self, admin: Admin, wrong: Mapping[str, str]) -> None:
        told = ", ".join(f"{name}={value}" for name, value in wrong.items())
        try:
            await admin.alter_configs("topic", self.name, wrong)
        except _MAY_NOT as error:
            if wrong.keys() != CLEAN.keys():
                raise
            logger.warning("%s can lose state: the cluster refuses %s: %s", self.name, told, error)
        else:
            logger.warning(
                "%s had other settings than ours, by which state can be lost; it has %s now",
                self.name,
                told,
            )

    async def _known(self) -> TopicMetadata:
        """The brokers of a cluster hear of a new topic one after the other, then of its leaders."""
        for _ in range(KNOWN_LOOKS):
            with suppress(errors.UnknownTopicOrPartition, errors.LeaderNotAvailable):
                return await self._cluster.topic(self.name)
            await asyncio.sleep(KNOWN_S)
        return await self._cluster.topic(self.name)

    async def is_made(self) -> bool:
        """See ``log.CoordinatorLog``."""
        await self.ensure()
        return True

    def partition(self, partition: int) -> ClusterLogOfCoordinator:
        """One partition as the log of a coordinator."""
        where = TopicPartition(self.name, partition)
        owned = StateLog(self._cluster, where, f"{self.name}.{partition}", self._me, self._wall_ms)
        return ClusterLogOfCoordinator(self, owned)


class ClusterLogOfCoordinator:
    """One partition; implements ``log.InternalPartition``."""

    def __init__(self, topic: ClusterTopic, owned: StateLog) -> None:
        self.name = f"{topic.name}-{owned.where.partition}"
        self.exists = True
        self.left_out: list[tuple[int, int]] = []
        self._topic = topic
        self._owned = owned

    @property
    def start_offset(self) -> int:
        """Where a replay begins."""
        return self._owned.start

    @property
    def durable_end(self) -> int:
        """The end of the durable records."""
        return self._owned.end

    @property
    def record_count(self) -> int:
        """About how many records a replay passes over."""
        return self._owned.end - self._owned.start

    async def ensure(self) -> None:
        """Make the topic unless it exists. Raises KafkaStorageError."""
        await self._topic.ensure()

    async def is_made(self) -> bool:
        """See ``log.CoordinatorLog``."""
        return await self._topic.is_made()

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> Submitted:
        """See ``log.CoordinatorLog``."""
        if producer is not None:
            _no_transactions()
        return self._owned.submit(records)

    def submit_end(self, end: EndOfTransaction) -> NoReturn:
        """See ``log.CoordinatorLog``."""
        _no_transactions()

    def check_producer(self, producer: ProducerEpoch) -> None:
        """See ``log.CoordinatorLog``."""
        _no_transactions()

    async def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        """Become the owner; every record that counts, in order."""
        self.left_out.clear()
        await self._topic.turn(self._owned.where)
        try:
            async for offset, key, value in self._owned.claim():
                yield LoggedRecord(offset, key, value)
        except errors.KafkaStorageError:
            raise
        except errors.KafkaError as error:
            raise errors.KafkaStorageError(f"{self.name} cannot be read: {error}") from error

    async def delete_before(self, offset: int) -> int:
        """See ``log.CoordinatorLog``."""
        try:
            return await self._owned.delete_before(offset)
        except errors.KafkaError as error:
            raise errors.KafkaStorageError(f"{self.name}: {error}") from error

    async def give_up(self) -> None:
        """See ``log.CoordinatorLog``."""
        await self._owned.give_up()

    def leave_out(self, offset: int, error: errors.MalformedMessage) -> None:
        """See ``log.CoordinatorLog``."""
        self.left_out.append((offset, offset))
        logger.error("%s: the record at offset %d is left out: %s", self.name, offset, error)


async def _no_turn(where: TopicPartition) -> NoReturn:
    raise errors.NotCoordinator(f"nobody owns {where}")


def _no_transactions() -> NoReturn:
    raise errors.UnsupportedVersion(
        "acknowledgements in a transaction are not served in front of a cluster"
    )


def too_few_replicas(topic: TopicMetadata, brokers: int) -> str | None:
    """What to do if the cluster has more brokers than when the topic was made, and could keep more
    replicas; None: nothing."""
    replicas = min(len(partition.replicas) for partition in topic.partitions)
    wanted = min(REPLICAS, brokers)
    if replicas >= wanted:
        return None
    return (
        f"{replicas} of the cluster's {brokers} brokers keep it, and what it has is lost with "
        f"them: give it {wanted} replicas (kafka-reassign-partitions) and "
        f"min.insync.replicas={max(1, wanted - 1)}"
    )
