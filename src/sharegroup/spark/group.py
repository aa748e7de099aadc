"""What the driver asks the cluster about the group: how far it is, where logs end, its configs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.client.cluster import Cluster
from sharegroup.model.errors import (
    ConfigError,
    GroupIdNotFound,
    KafkaError,
    LeaderNotAvailable,
    RetriableError,
    error_from_code,
)
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options import ShareOptions
from sharegroup.wire.apis import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_OFFSETS,
)
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

log = logging.getLogger("sharegroup.spark")

GROUP_RESOURCE: Final = 32
"""ConfigResource.Type.GROUP."""
SET: Final = 0
EARLIEST: Final = -2
LATEST: Final = -1
UNSTARTED_SECONDS: Final = 2.0
"""How long a partition of which the group has no position yet may give nothing."""
LOCK_MARGIN_SECONDS: Final = 2.0


class Progress(NamedTuple):
    """How far the group is in one partition; -1 is unknown."""

    start_offset: int
    lag: int


class GroupView:
    """See the module. Every method is one or a few requests; none is cached."""

    def __init__(self, cluster: Cluster, options: ShareOptions) -> None:
        self._cluster = cluster
        self._options = options

    async def prepare(self, *, is_new_query: bool) -> None:
        """Give a group that has no position yet the configs that the options ask for.

        Raises:
            ConfigError: the broker refuses one; its own sentence says why.
        """
        configs = {
            "share.auto.offset.reset": self._options.starting_offsets,
            "share.partition.max.record.locks": self._options.record_locks_per_partition,
        }
        wanted = {name: str(value) for name, value in configs.items() if value is not None}
        if not wanted:
            return
        known = await self._first_progress()
        if not any(state.start_offset >= 0 for state in known.values()):
            await self._set_configs(wanted)
        elif is_new_query:
            log.warning(
                "the group %s has a position already: startingOffsets and recordLocksPerPartition "
                "are for new groups and do nothing",
                self._options.group_id,
            )

    async def _first_progress(self) -> dict[TopicIdPartition, Progress]:
        """As :meth:`progress`, with patience: a cluster makes its coordinator when first asked."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.request_timeout_ms / 1000
        backoff = self._cluster.backoff()
        while True:
            try:
                return await self.progress(None)
            except RetriableError:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(backoff.next_ms() / 1000)

    async def progress(self, topics: Mapping[UUID, str] | None) -> dict[TopicIdPartition, Progress]:
        """Start offset and lag of each partition of the group; only of ``topics`` when given.

        Raises:
            KafkaError: the coordinator cannot be asked.
        """
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self._options.group_id, topics=None)
        response: DescribeShareGroupOffsetsResponse = await self._cluster.send_to_coordinator(
            self._options.group_id,
            DESCRIBE_SHARE_GROUP_OFFSETS,
            DescribeShareGroupOffsetsRequest(groups=[group]),
        )
        answer = response.groups[0]
        if answer.error_code == GroupIdNotFound.code:
            return {}
        if answer.error_code:
            raise error_from_code(answer.error_code, answer.error_message)
        return {
            TopicIdPartition(topic.topic_id, one.partition_index): Progress(
                one.start_offset, one.lag
            )
            for topic in answer.topics
            for one in topic.partitions
            if not one.error_code and (topics is None or topic.topic_id in topics)
        }

    async def end_offsets(self, topics: Mapping[UUID, str]) -> dict[TopicIdPartition, int]:
        """Where each partition that holds records ends (exclusive)."""
        first = await self._offsets(topics, EARLIEST)
        end = await self._offsets(topics, LATEST)
        return {partition: end[partition] for partition in end if end[partition] > first[partition]}

    async def is_drained(
        self,
        topics: Mapping[UUID, str],
        targets: Mapping[TopicIdPartition, int],
        idle_s: float,
        lock_s: float,
    ) -> bool:
        """Whether nothing before ``targets`` will come any more, after ``idle_s`` without records.

        Records that another member holds, or that a killed one held, may still come back until one
        lock duration has passed.
        """
        if idle_s > lock_s + LOCK_MARGIN_SECONDS:
            return True
        try:
            progress = await self.progress(topics)
            ends = await self._offsets(topics, LATEST)
        except KafkaError as error:
            log.info("whether all is read is not known yet: %s", error)
            return False
        for partition, target in targets.items():
            state = progress.get(partition, Progress(-1, -1))
            if state.start_offset < 0 and idle_s > UNSTARTED_SECONDS:
                continue
            # Apache Kafka stores the start offset one write late; its lag is right at once.
            behind = max(0, ends.get(partition, target) - target)
            if state.start_offset < target and not 0 <= state.lag <= behind:
                return False
        return True

    async def _set_configs(self, configs: Mapping[str, str]) -> None:
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=self._options.group_id,
            configs=[
                AlterableConfig(name=name, config_operation=SET, value=value)
                for name, value in configs.items()
            ],
        )
        response: IncrementalAlterConfigsResponse = await self._cluster.send_to_any(
            INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource])
        )
        answer = response.responses[0]
        if answer.error_code:
            error = error_from_code(answer.error_code, answer.error_message)
            raise ConfigError(
                f"the broker refuses {configs} for the group {self._options.group_id}: {error}"
            )

    async def _offsets(
        self, topics: Mapping[UUID, str], timestamp: int
    ) -> dict[TopicIdPartition, int]:
        await self._cluster.refresh()
        offsets: dict[TopicIdPartition, int] = {}
        for node_id, partitions in self._by_leader(topics).items():
            by_topic: dict[UUID, list[ListOffsetsPartition]] = {}
            for topic_id, index in partitions:
                part = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                by_topic.setdefault(topic_id, []).append(part)
            asked = [ListOffsetsTopic(name=topics[i], partitions=p) for i, p in by_topic.items()]
            response: ListOffsetsResponse = await self._cluster.send(
                node_id, LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=asked)
            )
            ids = {name: topic_id for topic_id, name in topics.items()}
            for topic in response.topics:
                for one in topic.partitions:
                    if one.error_code:
                        raise error_from_code(one.error_code)
                    offsets[TopicIdPartition(ids[topic.name], one.partition_index)] = one.offset
        return offsets

    def _by_leader(self, topics: Iterable[UUID]) -> dict[int, list[TopicIdPartition]]:
        metadata = self._cluster.metadata
        nodes: dict[int, list[TopicIdPartition]] = {}
        for topic_id in topics:
            topic = metadata.by_id(topic_id)
            for info in topic.partitions if topic else ():
                partition = TopicIdPartition(topic_id, info.partition)
                leader = metadata.leader(partition)
                if leader is None:
                    raise LeaderNotAvailable(f"{topics} {partition} has no leader now")
                nodes.setdefault(leader, []).append(partition)
        return nodes
