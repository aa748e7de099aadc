"""The admin client: topics, settings, groups.

::

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics("orders", partitions=4)
        await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

A method that asks about several things raises the first error among them, unless its docstring
says that it returns one error per thing.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from sharegroup.client.admin import (
    group_requests,
    record_requests,
    topic_requests,
)
from sharegroup.client.admin.acl_calls import AclCalls
from sharegroup.client.admin.blocked_records import decide_blocked_record
from sharegroup.client.admin.consumer_groups import ConsumerGroupCalls
from sharegroup.client.admin.descriptions import (
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
from sharegroup.client.admin.each import of_each, or_first_error
from sharegroup.client.admin.quotas import QuotaCalls
from sharegroup.client.admin.scram_users import ScramUserCalls
from sharegroup.client.admin.transaction_calls import TransactionCalls
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.ack_type import AckType
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.model.ids import TopicPartition

T = TypeVar("T")

Resource = ResourceType | Literal["topic", "broker", "group"]

BROKERS_DEFAULT: Final = -1
"""Number of partitions or replicas: the broker's default (KIP-464)."""


class Admin(AclCalls, ConsumerGroupCalls, QuotaCalls, ScramUserCalls, TransactionCalls):
    """Reads and changes a cluster. Retries transient errors for ``request_timeout_ms``.

    Args:
        bootstrap_servers: ``host:port,…`` or a list.
        security: TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's
            clients or librdkafka for them; None: PLAINTEXT.
        cluster: connections to share with other clients; :meth:`close` does not close them.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        client_id: str = "sharegroup-admin",
        request_timeout_ms: int = 30_000,
        security: SecuritySettings = None,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            allow_auto_create_topics=False,
            security=security,
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
            self._forsake()

    def _forsake(self) -> None:
        """Disconnect, from any thread, because nobody closed this client."""
        if self._owns_cluster:
            self._owns_cluster = False  # nothing is left to close, or to warn of
            self._cluster.forsake()

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
        """Create topics, all with the same settings.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig …: the error of the
            first topic that failed.
        """
        await self._trying(
            lambda: topic_requests.create_topics(
                self._cluster, names, partitions, replication_factor, configs or {}
            )
        )

    async def delete_topics(self, *names: str) -> None:
        """Delete topics and all their records."""
        await self._trying(lambda: topic_requests.delete_topics(self._cluster, names))

    async def create_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to ``count``; it cannot be lowered."""
        await self._trying(lambda: topic_requests.create_partitions(self._cluster, topic, count))

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        topics = await self._trying(lambda: topic_requests.describe_topics(self._cluster, None))
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
        topics = await self._trying(lambda: topic_requests.describe_topics(self._cluster, names))
        return {topic.name: topic for topic in topics}

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec | int = OffsetSpec.LATEST,
        *,
        committed: bool = False,
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets of partitions: the end, the start, or the first record whose timestamp is ``at``
        (ms since 1970) or later; -1 if there is no such record.

        Args:
            committed: take the start of the first open transaction as the end (read_committed).
        """
        wanted = list(partitions)
        return await self._trying(
            lambda: topic_requests.list_offsets(self._cluster, wanted, int(at), committed=committed)
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all). Returns each partition's new start."""
        return await self._trying(lambda: topic_requests.delete_records(self._cluster, before))

    # --- cluster and settings ---------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return await self._trying(lambda: topic_requests.describe_cluster(self._cluster))

    async def describe_configs(self, resource: Resource, name: str) -> dict[str, ConfigSetting]:
        """All settings of a topic, a broker (its node id) or a group, by name. A group need not
        exist.
        """
        kind = _resource(resource)
        return await self._trying(
            lambda: topic_requests.describe_configs(self._cluster, kind, str(name))
        )

    async def alter_configs(
        self, resource: Resource, name: str, settings: Mapping[str, str | None]
    ) -> None:
        """Change these settings only; None resets one to its default. A group need not exist. For
        example, let a new share group begin at the first record::

            await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

        Raises:
            InvalidConfig: a value is invalid; the text is the broker's.
            InvalidRequest: a broker cannot have this setting or value.
        """
        kind = _resource(resource)
        await self._trying(
            lambda: topic_requests.alter_configs(self._cluster, kind, str(name), settings)
        )

    # --- groups -----------------------------------------------------------------------------------

    async def begin_group_at(self, group: str, offset_reset: str) -> bool:
        """Let a share group that does not exist yet begin at ``earliest``, ``latest`` or
        ``by_duration:<ISO-8601 duration>``. If the group exists, change nothing and return False.

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
        """All groups, or the groups of these types (``share``) and states (``Empty``, ``Stable``),
        sorted by group id.
        """
        wanted = list(states)
        return await self._trying(lambda: group_requests.list_groups(self._cluster, types, wanted))

    async def describe_share_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ShareGroupDescription]:
        """Share groups by id, with their members.

        Raises:
            GroupIdNotFound: there is no such group, or it is of another type.
        """

        async def describe(group_id: str) -> ShareGroupDescription:
            return await self._trying(
                lambda: group_requests.describe_share_group(self._cluster, group_id)
            )

        return or_first_error(await of_each(groups, describe))

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """The group's offsets in these partitions; by default, in all partitions where it has
        state. For a group that does not exist, Apache Kafka answers that there is no state.
        """
        wanted = None if partitions is None else list(partitions)
        return await self._trying(
            lambda: group_requests.list_share_group_offsets(self._cluster, group_id, wanted)
        )

    async def describe_record_states(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionRecords]:
        """The state of each record in flight; by default, in all partitions where the group has
        state. The call only reads: it acquires and delivers no records.

        Our broker gives the full state to every user who may describe the group. From Apache Kafka
        we read the durable state (API 84): it has no locks, and if there is an authorizer, reading
        it needs a broker's permission (CLUSTER_ACTION).

        Raises:
            GroupIdNotFound: there is no such group (our broker; Apache Kafka returns no state).
            ClusterAuthorizationFailed: no permission to read the durable state.
        """
        wanted = None if partitions is None else list(partitions)
        return await self._trying(
            lambda: record_requests.describe_record_states(self._cluster, group_id, wanted)
        )

    async def release_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Let a record that waits for an operator (``share.ordering.on.failure=block``) be
        delivered once more. If it fails again, or the broker stops before it is finished, it waits
        again.

        Raises:
            InvalidRecordState: the record does not wait for an operator.
            GroupIdNotFound: there is no such group.
            UnsupportedVersion: the broker, such as Apache Kafka, does not know blocked records.
        """
        await self._trying(
            lambda: decide_blocked_record(self._cluster, group_id, at, offset, AckType.RELEASE)
        )

    async def archive_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Give up a record that waits for an operator; its key goes on. Raises as
        :meth:`release_blocked_record` does."""
        await self._trying(
            lambda: decide_blocked_record(self._cluster, group_id, at, offset, AckType.REJECT)
        )

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move a share group that has no members to these offsets. The state of records in flight
        is dropped. A group that does not exist is created. Returns each partition's error; None is
        success.

        Raises:
            NonEmptyGroup: the group has members; nothing was moved.
        """
        return await self._trying(
            lambda: group_requests.alter_share_group_offsets(self._cluster, group_id, offsets)
        )

    async def delete_share_group_offsets(
        self, group_id: str, *topics: str
    ) -> dict[str, KafkaError | None]:
        """Delete the state of topics in a share group that has no members: in these topics, it
        begins like a new group. Returns each topic's error; None is success.

        Raises:
            NonEmptyGroup: the group has members; nothing was deleted.
            GroupIdNotFound: there is no such group.
        """
        return await self._trying(
            lambda: group_requests.delete_share_group_offsets(self._cluster, group_id, topics)
        )

    async def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete share groups that have no members. Returns each group's error (NonEmptyGroup,
        GroupIdNotFound …); None is success.
        """

        async def delete(group_id: str) -> None:
            await self._trying(lambda: group_requests.delete_group(self._cluster, group_id))

        return await of_each(groups, delete)

    async def delete_groups(self, *groups: str) -> None:
        """Delete groups that have no members.

        Raises:
            NonEmptyGroup, GroupIdNotFound: the error of the first group that failed.
        """
        or_first_error(await self.delete_share_groups(*groups))

    # --- inside -----------------------------------------------------------------------------------

    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""
        await self.start()
        return await retrying(self._cluster, attempt, self._timeout_ms, _worth_another_try)


def _worth_another_try(error: KafkaError) -> bool:
    """Whether a retry may help. UNKNOWN_TOPIC_OR_PARTITION is retriable in Kafka, but here it is
    raised at once: the caller named the topic.
    """
    return error.retriable and error.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


def _resource(resource: Resource) -> ResourceType:
    return resource if isinstance(resource, ResourceType) else ResourceType[resource.upper()]
