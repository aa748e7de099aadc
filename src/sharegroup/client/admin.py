"""The admin client: topics, settings, groups.

::

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics("orders", partitions=4)
        await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

A method that was asked about several things raises the first error that one of them has, unless it
says that each comes with its own.
"""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from sharegroup.client import admin_groups, admin_records, admin_topics
from sharegroup.client.cluster import Cluster
from sharegroup.client.descriptions import (
    ClusterDescription,
    ConfigSetting,
    GroupListing,
    ListedOffset,
    OffsetSpec,
    PartitionRecords,
    ResourceType,
    ShareGroupDescription,
    ShareGroupOffset,
    TopicDescription,
    TopicListing,
)
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.model.ids import TopicPartition

T = TypeVar("T")

Resource = ResourceType | Literal["topic", "broker", "group"]

BROKERS_DEFAULT: Final = -1
"""Partitions and replicas: as the broker's settings say (KIP-464)."""


class Admin:
    """Asks and changes a cluster. Errors that pass are tried again for ``request_timeout_ms``.

    Args:
        bootstrap_servers: ``host:port,…`` or a list.
        cluster: connections to share with others; it is not closed then.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        client_id: str = "sharegroup-admin",
        request_timeout_ms: int = 30_000,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            allow_auto_create_topics=False,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._timeout_ms = request_timeout_ms

    async def start(self) -> None:
        """Connect; ``async with`` and the first call do it by themselves.

        Raises:
            BootstrapError: no broker could be reached.
        """
        await self._cluster.start()

    async def close(self) -> None:
        """Disconnect."""
        if self._owns_cluster:
            await self._cluster.close()

    def __del__(self) -> None:
        if getattr(self, "_owns_cluster", False) and self._cluster.connected:
            warnings.warn(
                "an Admin was not closed: write `async with Admin(...)`, or await its close()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- topics -----------------------------------------------------------------------------------

    async def create_topics(
        self,
        *names: str,
        partitions: int = BROKERS_DEFAULT,
        replication_factor: int = BROKERS_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create topics, all alike.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig …: of the first that
            failed.
        """
        await self._trying(
            lambda: admin_topics.create_topics(
                self._cluster, names, partitions, replication_factor, configs or {}
            )
        )

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with all that is in them."""
        await self._trying(lambda: admin_topics.delete_topics(self._cluster, names))

    async def create_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to ``count``; it cannot be lowered."""
        await self._trying(lambda: admin_topics.create_partitions(self._cluster, topic, count))

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        topics = await self._trying(lambda: admin_topics.describe_topics(self._cluster, None))
        return [
            TopicListing(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partition_count=len(topic.partitions),
            )
            for topic in topics
            if include_internal or not topic.is_internal
        ]

    async def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Topics by name, with their partitions.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
        """
        topics = await self._trying(lambda: admin_topics.describe_topics(self._cluster, names))
        return {topic.name: topic for topic in topics}

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec | int = OffsetSpec.LATEST,
        *,
        committed: bool = False,
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets of partitions: the end, the start, or the first record not older than ``at`` (ms
        since 1970); -1 where no record is that young.

        Args:
            committed: the end is where the first open transaction begins (read_committed).
        """
        wanted = list(partitions)
        return await self._trying(
            lambda: admin_topics.list_offsets(self._cluster, wanted, int(at), committed=committed)
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all); the new start of each partition."""
        return await self._trying(lambda: admin_topics.delete_records(self._cluster, before))

    # --- cluster and settings ---------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return await self._trying(lambda: admin_topics.describe_cluster(self._cluster))

    async def describe_configs(self, resource: Resource, name: str) -> dict[str, ConfigSetting]:
        """All settings of a topic, a broker (its node id) or a group, by name. A group need not
        exist.
        """
        kind = _resource(resource)
        return await self._trying(
            lambda: admin_topics.describe_configs(self._cluster, kind, str(name))
        )

    async def alter_configs(
        self, resource: Resource, name: str, settings: Mapping[str, str | None]
    ) -> None:
        """Set some settings and leave the others; None takes one back to its default. A group need
        not exist: this is how a new share group is told to begin at the first record::

            await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

        Raises:
            InvalidConfig: a value cannot be; the text is the broker's.
        """
        kind = _resource(resource)
        await self._trying(
            lambda: admin_topics.alter_configs(self._cluster, kind, str(name), settings)
        )

    # --- groups -----------------------------------------------------------------------------------

    async def begin_group_at(self, group: str, offset_reset: str) -> bool:
        """Let a share group that does not exist yet begin at ``earliest``, ``latest`` or
        ``by_duration:<ISO-8601 duration>``; False, and nothing is changed, when it exists.

        Raises:
            InvalidConfig: ``offset_reset`` is none of these.
        """
        try:
            await self.describe_share_groups([group])
        except GroupIdNotFound:
            config = {"share.auto.offset.reset": offset_reset}
            await self.alter_configs(ResourceType.GROUP, group, config)
            return True
        return False

    async def list_groups(self, *types: str, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those of these types (``share``) and states (``Empty``, ``Stable``), by
        group id.
        """
        wanted = list(states)
        return await self._trying(lambda: admin_groups.list_groups(self._cluster, types, wanted))

    async def describe_share_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ShareGroupDescription]:
        """Share groups by id, with their members.

        Raises:
            GroupIdNotFound: there is no such group, or it is of another type.
        """

        async def describe(group_id: str) -> ShareGroupDescription:
            return await self._trying(
                lambda: admin_groups.describe_share_group(self._cluster, group_id)
            )

        return _or_first_error(await _of_each(groups, describe))

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Where the group is in these partitions, by default in each one that it has state for. Of
        a group that does not exist Apache Kafka says that it has none.
        """
        wanted = None if partitions is None else list(partitions)
        return await self._trying(
            lambda: admin_groups.list_share_group_offsets(self._cluster, group_id, wanted)
        )

    async def describe_record_states(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionRecords]:
        """The state of each record in flight, by default in each partition that the group has state
        for. It takes nothing from the queue and delivers nothing.

        Our broker tells all, to whoever may describe the group. Of Apache Kafka the durable state
        is read (API 84), which knows of no locks and needs the right of a broker
        (CLUSTER_ACTION) where there is an authorizer.

        Raises:
            GroupIdNotFound: there is no such group (our broker; Apache Kafka has no state of it).
            ClusterAuthorizationFailed: the durable state must be read, and may not.
        """
        wanted = None if partitions is None else list(partitions)
        return await self._trying(
            lambda: admin_records.describe_record_states(self._cluster, group_id, wanted)
        )

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move a share group that has no members to these offsets; what was in flight is
        forgotten. A group that does not exist is made. Each partition comes with its error, None
        where it was moved.

        Raises:
            NonEmptyGroup: it has members; nothing was moved.
        """
        return await self._trying(
            lambda: admin_groups.alter_share_group_offsets(self._cluster, group_id, offsets)
        )

    async def delete_share_group_offsets(
        self, group_id: str, *topics: str
    ) -> dict[str, KafkaError | None]:
        """Let a share group that has no members forget topics: it begins there as a new group does.
        Each topic comes with its error, None where it was forgotten.

        Raises:
            NonEmptyGroup: it has members; nothing was forgotten.
            GroupIdNotFound: there is no such group.
        """
        return await self._trying(
            lambda: admin_groups.delete_share_group_offsets(self._cluster, group_id, topics)
        )

    async def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete share groups that have no members. Each comes with its error (NonEmptyGroup,
        GroupIdNotFound …), None where it was deleted.
        """

        async def delete(group_id: str) -> None:
            await self._trying(lambda: admin_groups.delete_group(self._cluster, group_id))

        return await _of_each(groups, delete)

    async def delete_groups(self, *groups: str) -> None:
        """Delete groups that have no members.

        Raises:
            NonEmptyGroup, GroupIdNotFound: of the first that failed.
        """
        _or_first_error(await self.delete_share_groups(*groups))

    # --- inside -----------------------------------------------------------------------------------

    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Until it works, an error is not of the passing kind, or the time is up."""
        await self.start()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        backoff = self._cluster.backoff()
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                pause_s = backoff.next_ms() / 1000
                if not _worth_another_try(error) or loop.time() + pause_s > deadline:
                    raise
                await asyncio.sleep(pause_s)


async def _of_each(
    groups: Iterable[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | KafkaError]:
    """What ``ask`` gives for each group, all asked at once: each has its own coordinator, and one
    that has to be tried again does not repeat the others.
    """

    async def outcome(group_id: str) -> T | KafkaError:
        try:
            return await ask(group_id)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(groups))
    return dict(zip(wanted, await asyncio.gather(*map(outcome, wanted)), strict=True))


def _or_first_error(outcomes: dict[str, T | KafkaError]) -> dict[str, T]:
    found: dict[str, T] = {}
    for group_id, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            raise outcome
        found[group_id] = outcome
    return found


def _worth_another_try(error: KafkaError) -> bool:
    """UNKNOWN_TOPIC_OR_PARTITION is of the passing kind in Kafka, but whoever names a topic
    wants to hear it.
    """
    return error.retriable and error.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


def _resource(resource: Resource) -> ResourceType:
    return resource if isinstance(resource, ResourceType) else ResourceType[resource.upper()]
