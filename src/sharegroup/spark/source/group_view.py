"""The driver's questions to the cluster: the group's positions and configs, and end offsets."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import (
    MemberDescription,
    OffsetSpec,
    PartitionRecords,
    ShareGroupOffset,
)
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.config import ConfigSource
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.share.record_state import RecordState
from sharegroup.spark.options.stream import ShareOptions

log = logging.getLogger("sharegroup.spark")

WIDE_WINDOW_FEATURE: Final = "share.wide.window"
"""Our broker allows a group a higher lock limit than Kafka does."""
PAUSES_FEATURE: Final = "share.release.backoff"
"""Our broker lets a released record rest, for as long as the release says."""
ISOLATION_CONFIG: Final = "share.isolation.level"
SESSION_CONFIG: Final = "share.session.timeout.ms"
SESSION_MS_DEFAULT: Final = 45_000
"""Kafka's group.share.session.timeout.ms."""
READ_COMMITTED: Final = "read_committed"
LOCKS_CONFIG: Final = "share.partition.max.record.locks"
WIDE_LOCKS_CONFIG: Final = "share.partition.wide.record.locks"
ORDERING_CONFIG: Final = "share.ordering"
"""Our broker keeps order per key for a group whose config has the value ``key``."""
ORDERED_BY_KEY: Final = "key"
FINISHED: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
WIDE_LOCKS: Final = 1_000_000
"""The locks per partition that we set on a broker with this feature. Locks bound a batch, and the
overhead of a batch is fixed, so large batches are better."""

Offsets = dict[TopicIdPartition, int]


class Unfinished(NamedTuple):
    """Records of a partition that the group has not finished."""

    records: int
    begun: bool
    """Whether the group has a position in the partition."""


class DeliveryConfigs(NamedTuple):
    """Configs of the group that decide what a batch holds."""

    locks_per_partition: int | None
    """How many records of one partition the group may hold; None: the broker does not say."""
    locks_config: str
    """The config that says so."""
    ordered_by_key: bool


class GroupQuestions:
    """See the module. Every method is one or a few requests."""

    def __init__(self, cluster: Cluster, options: ShareOptions) -> None:
        self._cluster = cluster
        self._group_id = options.group_id
        self._options = options
        self._admin = Admin(cluster=cluster, request_timeout_ms=options.request_timeout_ms)
        self._latest: bool | None = None
        self._session_timeout_s: float | None = None

    async def prepare(self, topics: Collection[str], *, is_new_query: bool) -> None:
        """Set the configs and the position from the options, if the group has no position yet.

        Raises:
            ConfigError: the broker refuses a config; the text has the broker's reason.
        """
        wanted = self._wanted_configs()
        if not wanted:
            return
        known = await self._offsets()
        if all(state.start_offset is None for state in known.values()):
            if self._options.record_locks_per_partition is None and await self._has_own_locks():
                wanted.pop(WIDE_LOCKS_CONFIG, None)
            await self._set_configs(wanted)
            if self._options.starting_timestamp_ms is not None:
                await self._begin_at(topics, self._options.starting_timestamp_ms)
        elif is_new_query and self._asks_for_a_beginning:
            log.warning(
                "the group %s has a position already: startingOffsets, startingTimestamp, "
                "isolationLevel and recordLocksPerPartition are for new groups and do nothing",
                self._group_id,
            )

    def _wanted_configs(self) -> dict[str, str]:
        options = self._options
        locks = options.record_locks_per_partition
        begin = options.starting_offsets
        if options.starting_timestamp_ms is not None:
            begin = "earliest"  # for partitions that are added later
        configs = {
            "share.auto.offset.reset": begin,
            ISOLATION_CONFIG: options.isolation_level,
            LOCKS_CONFIG: None if self._is_wide else locks,
            WIDE_LOCKS_CONFIG: (locks or WIDE_LOCKS) if self._is_wide else None,
        }
        return {name: str(value) for name, value in configs.items() if value is not None}

    async def _has_own_locks(self) -> bool:
        """Whether somebody has set a lock limit for the group already."""
        try:
            settings = await self._admin.describe_configs("group", self._group_id)
        except errors.GroupAuthorizationFailed:  # then the configs cannot be set either
            return False
        found = (settings.get(name) for name in (WIDE_LOCKS_CONFIG, LOCKS_CONFIG))
        return any(one is not None and one.source == ConfigSource.GROUP for one in found)

    @property
    def _asks_for_a_beginning(self) -> bool:
        options = self._options
        asked = (
            options.starting_offsets,
            options.starting_timestamp_ms,
            options.isolation_level,
            options.record_locks_per_partition,
        )
        return any(one is not None for one in asked)

    @property
    def has_pauses(self) -> bool:
        """Whether the broker lets released records rest, for as long as the release says."""
        return PAUSES_FEATURE in self._cluster.features

    @property
    def gives_at_once(self) -> bool:
        """Whether the first fetch from a partition brings what is there: our broker needs no time
        to load."""
        return self._is_wide

    @property
    def _is_wide(self) -> bool:
        return WIDE_WINDOW_FEATURE in self._cluster.features

    async def _begin_at(self, topics: Collection[str], timestamp_ms: int) -> None:
        """Set the position of a group without members to the first records of ``timestamp_ms`` or
        later; partitions without such a record begin at their end."""
        described = (await self._admin.describe_topics(*topics)).values() if topics else ()
        partitions = [TopicPartition(t.name, p.partition) for t in described for p in t.partitions]
        found = await self._admin.list_offsets(partitions, timestamp_ms)
        ends = await self._admin.list_offsets(partitions)
        offsets = {
            partition: one.offset if one.offset >= 0 else ends[partition].offset
            for partition, one in found.items()
        }
        try:
            outcomes = await self._admin.alter_share_group_offsets(self._group_id, offsets)
        except errors.NonEmptyGroup:
            log.warning("the group %s has members already: it begins at earliest", self._group_id)
            return
        for error in outcomes.values():
            if error is not None:
                raise error

    async def positions(self, topics: Collection[str]) -> dict[TopicPartition, ShareGroupOffset]:
        """The group's positions in the partitions of ``topics``, without partitions where it has no
        position.

        Raises:
            KafkaError: the coordinator cannot be asked.
        """
        known = await self._offsets()
        return {partition: state for partition, state in known.items() if partition.topic in topics}

    async def delivery_configs(self) -> DeliveryConfigs:
        """How records are delivered to the group.

        Raises:
            KafkaError: no broker could be asked.
        """
        settings = await self._admin.describe_configs("group", self._group_id)
        ordering = settings.get(ORDERING_CONFIG)
        limits = {
            name: int(found.value)
            for name in (WIDE_LOCKS_CONFIG, LOCKS_CONFIG)
            if (found := settings.get(name)) is not None and found.value
        }
        holds = WIDE_LOCKS_CONFIG if limits.get(WIDE_LOCKS_CONFIG) else LOCKS_CONFIG
        return DeliveryConfigs(
            locks_per_partition=limits.get(holds),
            locks_config=holds,
            ordered_by_key=ordering is not None and ordering.value == ORDERED_BY_KEY,
        )

    async def record_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionRecords]:
        """The state of each record in flight; empty if the group does not exist.

        Raises:
            KafkaError: no broker could be asked.
        """
        try:
            return await self._admin.describe_record_states(self._group_id, partitions)
        except errors.GroupIdNotFound:
            return {}

    async def end_offsets(self, topics: Mapping[UUID, str]) -> Offsets:
        """The end offset (exclusive) of each partition that holds records; for a read_committed
        group, the start of its first open transaction."""
        partitions = await self._partitions(topics)
        committed = await self._reads_committed()
        first = await self._admin.list_offsets(partitions.values(), OffsetSpec.EARLIEST)
        end = await self._admin.list_offsets(partitions.values(), committed=committed)
        return {
            key: end[partition].offset
            for key, partition in partitions.items()
            if end[partition].offset > first[partition].offset
        }

    async def _reads_committed(self) -> bool:
        if self._options.isolation_level is not None:
            return self._options.isolation_level == READ_COMMITTED
        settings = await self._admin.describe_configs("group", self._group_id)
        level = settings.get(ISOLATION_CONFIG)
        return level is not None and level.value == READ_COMMITTED

    async def left(
        self,
        topics: Mapping[UUID, str],
        targets: Offsets,
        held: Mapping[TopicIdPartition, int],
    ) -> dict[TopicIdPartition, Unfinished]:
        """How many records before ``targets`` the group has not finished, whichever member holds
        them. Records that rest at the broker do not count. Partitions without such records are left
        out.

        Args:
            held: records that this query holds for later; they do not count.

        If the group has no position yet, and on Apache Kafka before 4.2, which reports no lag, all
        records that the group has not passed count. If records have come after ``targets``, the lag
        does not say which are finished, so we ask for their states. Where Apache Kafka refuses
        them, all records after ``targets`` are taken for unfinished.

        Raises:
            KafkaError: the brokers cannot be asked.
        """
        progress = await self._offsets()
        partitions = await self._partitions(topics)
        ends = await self._admin.list_offsets(partitions.values())
        left: dict[TopicIdPartition, Unfinished] = {}
        new: dict[TopicIdPartition, TopicPartition] = {}
        for key, target in targets.items():
            partition = partitions.get(key)
            if partition is None:  # its topic was deleted
                continue
            state = progress.get(partition)
            start = None if state is None else state.start_offset
            if state is not None and start is None:
                start = state.begins_at  # no record is acknowledged: a dead member may hold them
            if state is None or start is None:
                new[key] = partition
                continue
            behind = target - start
            if state.lag is not None:
                # Apache Kafka stores the start offset one write late; its lag is correct at once.
                behind = min(behind, state.lag - held.get(key, 0))
            if behind > 0:
                left[key] = Unfinished(behind, begun=True)
        left.update(await self._unbegun(new, targets))
        beyond = {key: max(0, ends[partitions[key]].offset - targets[key]) for key in left}
        asked = {key: partitions[key] for key in left if self.has_pauses or beyond[key]}
        states = await self._states(asked.values())
        for key, partition in asked.items():
            behind, state = left[key].records, progress.get(partition)
            if partition in states:
                unfinished, resting = _counted(states[partition], targets[key])
                behind = min(behind, unfinished - held.get(key, 0)) - resting
            elif state is not None and state.lag is not None:
                behind = min(behind, state.lag - beyond[key] - held.get(key, 0))
            left[key] = left[key]._replace(records=behind)
        return {key: one for key, one in left.items() if one.records > 0}

    async def _unbegun(
        self, partitions: Mapping[TopicIdPartition, TopicPartition], targets: Offsets
    ) -> dict[TopicIdPartition, Unfinished]:
        """All records before ``targets`` in partitions where the group has no position."""
        if not partitions:
            return {}
        first = await self._admin.list_offsets(partitions.values(), OffsetSpec.EARLIEST)
        return {
            key: Unfinished(targets[key] - first[partition].offset, begun=False)
            for key, partition in partitions.items()
            if targets[key] > first[partition].offset
        }

    async def _states(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionRecords]:
        """As :meth:`record_states`, without partitions that the group has not begun, and without
        those whose states this user may not see: Apache Kafka asks for CLUSTER_ACTION."""
        if not partitions:
            return {}
        try:
            found = await self.record_states(partitions)
        except errors.ClusterAuthorizationFailed:
            return {}
        refused = errors.ClusterAuthorizationFailed
        for one in found.values():
            if one.error is not None and not isinstance(one.error, refused):
                raise one.error
        return {
            where: one
            for where, one in found.items()
            if one.error is None and one.start_offset is not None
        }

    async def owners(self) -> dict[TopicPartition, list[MemberDescription]]:
        """The members that each partition is given to.

        Raises:
            KafkaError: the coordinator cannot be asked.
        """
        group = (await self._admin.describe_share_groups([self._group_id]))[self._group_id]
        owners: dict[TopicPartition, list[MemberDescription]] = {}
        for member in group.members:
            for partition in member.assignment:
                owners.setdefault(partition, []).append(member)
        return owners

    async def session_timeout_s(self) -> float:
        """After this time without a heartbeat a member loses its partitions.

        Raises:
            KafkaError: no broker could be asked.
        """
        if self._session_timeout_s is None:
            settings = await self._admin.describe_configs("group", self._group_id)
            found = settings.get(SESSION_CONFIG)
            known = found is not None and found.value
            self._session_timeout_s = int(known or SESSION_MS_DEFAULT) / 1000
        return self._session_timeout_s

    async def begins_at_latest(self) -> bool:
        """Whether the group begins new partitions at their end.

        Raises:
            KafkaError: no broker could be asked.
        """
        if self._latest is None:
            settings = await self._admin.describe_configs("group", self._group_id)
            reset = settings.get("share.auto.offset.reset")
            self._latest = reset is not None and reset.value == "latest"
        return self._latest

    async def _offsets(self) -> dict[TopicPartition, ShareGroupOffset]:
        try:
            return await self._admin.list_share_group_offsets(self._group_id)
        except errors.GroupIdNotFound:
            return {}

    async def _partitions(
        self, topics: Mapping[UUID, str]
    ) -> dict[TopicIdPartition, TopicPartition]:
        """All partitions of the topics as they are now, by id and by name."""
        await self._cluster.refresh()
        known = {topic_id: self._cluster.metadata.by_id(topic_id) for topic_id in topics}
        return {
            TopicIdPartition(topic_id, info.partition): TopicPartition(topic.name, info.partition)
            for topic_id, topic in known.items()
            if topic is not None
            for info in topic.partitions
        }

    async def _set_configs(self, configs: Mapping[str, str]) -> None:
        if not configs:
            return
        try:
            await self._admin.alter_configs("group", self._group_id, configs)
        except errors.InvalidConfig as error:
            raise errors.ConfigError(
                f"the broker refuses {configs} for the group {self._group_id}: {error}"
            ) from error
        except errors.GroupAuthorizationFailed as error:
            remedy = (
                f"allow this user ALTER_CONFIGS on the group {self._group_id}, or set "
                f"{', '.join(f'{name}={value}' for name, value in configs.items())} for it yourself"
            )
            if self._asks_for_a_beginning:
                raise errors.ConfigError(f"the group may not be configured: {remedy}") from error
            log.warning("batches stay within the group's own record locks: %s", remedy)


def _counted(records: PartitionRecords, target: int) -> tuple[int, int]:
    """How many records before ``target`` are not finished, and how many of them wait for the end of
    a pause."""
    finished = resting = 0
    for one in records.ranges:
        count = max(0, min(one.last, target - 1) - one.first + 1)
        finished += count if one.state in FINISHED else 0
        resting += count if one.state is RecordState.DELAYED else 0
    return max(0, target - (records.start_offset or 0)) - finished, resting
