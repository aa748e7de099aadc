"""The admin client: topics, settings, groups.

::

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics("orders", partitions=4)
        await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

A method that asks about several things raises the first error among them, unless its docstring
says that it returns one error per thing.

This file is longer than others because the class is one list of verbs, for people who look for one:
most lines are signatures and docstrings. A verb's request is a function of ``*_requests.py``.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Concatenate, Final, Literal, ParamSpec, Self, TypeVar

from sharegroup.client.admin import (
    acl_requests,
    consumer_group_requests,
    group_requests,
    offset_requests,
    quota_requests,
    record_requests,
    scram_user_requests,
    topic_requests,
    transaction_requests,
)
from sharegroup.client.admin.acls import EVERY_ACL, Acl, AclFilter
from sharegroup.client.admin.descriptions import (
    ClientQuota,
    ClusterDescription,
    ConfigSetting,
    ConsumerGroupDescription,
    DecidedRecords,
    GroupListing,
    ListedOffset,
    OffsetSpec,
    PartitionRecords,
    ProducerDescription,
    ResourceType,
    ScramUser,
    ShareGroupDescription,
    ShareGroupOffset,
    ShareGroupSummary,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
)
from sharegroup.client.admin.each import of_each, or_first_error
from sharegroup.client.admin.hand_requests import (
    decide_blocked_record,
    decide_records,
    purge_ends,
    set_paused,
    settings_of_groups,
)
from sharegroup.client.admin.scram_user_requests import ITERATIONS_DEFAULT, salted_password
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.dead_letter import DeadLetter, LettersHandled, LettersProgress
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.ack_type import AckType
from sharegroup.model.errors import (
    GroupIdNotFound,
    KafkaError,
    NetworkException,
    SharegroupError,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.sasl.mechanisms import SCRAM_SHA_512
from sharegroup.wire.messages import leave_group

P = ParamSpec("P")
T = TypeVar("T")

Resource = ResourceType | Literal["topic", "broker", "group"]

BROKERS_DEFAULT: Final = -1
"""Number of partitions or replicas: the broker's default (KIP-464)."""


class Admin:
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
        validate_only: bool = False,
    ) -> None:
        """Create topics, all with the same settings.

        Args:
            validate_only: create nothing, and raise what creating them would raise.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig …: the error of the
            first topic that failed.
        """
        await self._ask(
            topic_requests.create_topics,
            names,
            partitions,
            replication_factor,
            configs or {},
            validate_only,
        )

    async def delete_topics(self, *names: str) -> None:
        """Delete topics and all their records."""
        await self._ask(topic_requests.delete_topics, names)

    async def create_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to ``count``; it cannot be lowered."""
        await self._ask(topic_requests.create_partitions, topic, count)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        topics = await self._ask(topic_requests.describe_topics, None)
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
        topics = await self._ask(topic_requests.describe_topics, names)
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
        return await self._ask(topic_requests.list_offsets, wanted, int(at), committed=committed)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all). Returns each partition's new start."""
        return await self._ask(topic_requests.delete_records, before)

    # --- cluster and settings ---------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return await self._ask(topic_requests.describe_cluster)

    async def describe_configs(self, resource: Resource, name: str) -> dict[str, ConfigSetting]:
        """All settings of a topic, a broker (its node id) or a group, by name. A group need not
        exist.
        """
        kind = _resource(resource)
        return await self._ask(topic_requests.describe_configs, kind, str(name))

    async def alter_configs(
        self,
        resource: Resource,
        name: str,
        settings: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change these settings only; None resets one to its default. A group need not exist. For
        example, let a new share group begin at the first record::

            await admin.alter_configs("group", "billing", {"share.auto.offset.reset": "earliest"})

        Args:
            validate_only: change nothing, and raise what the change would raise.

        Raises:
            InvalidConfig: a value is invalid; the text is the broker's.
            InvalidRequest: a broker cannot have this setting or value.
        """
        kind = _resource(resource)
        await self._ask(topic_requests.alter_configs, kind, str(name), settings, validate_only)

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
        return await self._ask(group_requests.list_groups, types, wanted)

    async def describe_share_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ShareGroupDescription]:
        """Share groups by id, with their members.

        Raises:
            GroupIdNotFound: there is no such group, or it is of another type.
        """
        return or_first_error(await self._ask_each(group_requests.describe_share_group, groups))

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """The group's offsets in these partitions; by default, in all partitions where it has
        state. For a group that does not exist, Apache Kafka answers that there is no state.
        """
        wanted = None if partitions is None else list(partitions)
        return await self._ask(group_requests.list_share_group_offsets, group_id, wanted)

    async def summarize_share_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ShareGroupSummary | KafkaError]:
        """Members and offsets of share groups, many in a request: what a list of queues shows. It
        costs the broker a look into the log of each partition. Each group with its error
        (GroupAuthorizationFailed …); a group that does not exist has no members and no offsets."""
        wanted = list(dict.fromkeys(groups))
        return await self._ask(group_requests.summarize_share_groups, wanted)

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
        return await self._ask(record_requests.describe_record_states, group_id, wanted)

    async def release_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Let a record that waits for an operator (``share.ordering.on.failure=block``) be
        delivered once more. If it fails again, or the broker stops before it is finished, it waits
        again.

        Raises:
            InvalidRecordState: the record does not wait for an operator.
            GroupIdNotFound: there is no such group.
            UnsupportedVersion: the broker, such as Apache Kafka, does not know blocked records.
        """
        await self._ask(decide_blocked_record, group_id, at, offset, AckType.RELEASE)

    async def archive_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Give up a record that waits for an operator; its key goes on. Raises as
        :meth:`release_blocked_record` does."""
        await self._ask(decide_blocked_record, group_id, at, offset, AckType.REJECT)

    async def accept_records(
        self, group_id: str, at: TopicPartition, first: int, last: int | None = None
    ) -> DecidedRecords:
        """Finish the records ``first`` … ``last`` (``last`` None: one record), as if a consumer had
        accepted them: whether members hold them, they rest, or nobody has got them yet. The
        holder's later answer is late, and has no effect. What is finished already stays so.

        Raises:
            InvalidRecordState: the records are far past those that were delivered.
            GroupIdNotFound: there is no such group.
            UnsupportedVersion: the broker, such as Apache Kafka, takes no decisions by hand.
        """
        return await self._by_hand(group_id, at, first, last, AckType.ACCEPT)

    async def release_records(
        self, group_id: str, at: TopicPartition, first: int, last: int | None = None
    ) -> DecidedRecords:
        """Let the records be delivered again at once: take them from their holders, end their rest,
        let blocked ones go. A release by hand archives nothing: at the delivery limit a record is
        delivered once more. Otherwise as :meth:`accept_records`."""
        return await self._by_hand(group_id, at, first, last, AckType.RELEASE)

    async def archive_records(
        self,
        group_id: str,
        at: TopicPartition,
        first: int,
        last: int | None = None,
        *,
        reason: str | None = None,
    ) -> DecidedRecords:
        """Give the records up: they are never delivered again, and become dead letters if the group
        has a topic for them, with ``reason`` as their message. Otherwise as
        :meth:`accept_records`."""
        return await self._by_hand(group_id, at, first, last, AckType.REJECT, reason=reason)

    async def extend_records(
        self,
        group_id: str,
        at: TopicPartition,
        first: int,
        last: int | None = None,
        *,
        extend_ms: int,
    ) -> DecidedRecords:
        """Let the members that hold the records keep them for at least ``extend_ms`` from now on,
        up to a week, whatever the group's lock duration is. Otherwise as
        :meth:`accept_records`."""
        kind = AckType.RENEW
        return await self._by_hand(group_id, at, first, last, kind, extend_ms=extend_ms)

    async def purge_group(
        self,
        group_id: str,
        *,
        older_than_ms: int | None = None,
        topics: Iterable[str] | None = None,
    ) -> dict[TopicPartition, DecidedRecords]:
        """Give up all records of a share group that are not finished, also those that members hold
        and those that nobody has got yet. They become no dead letters, and stay in the log for
        others. Returns what each partition had, with the offsets that the log has no record at.

        Args:
            older_than_ms: only records before the first one whose timestamp is not so long ago;
                None: all that there are now.
            topics: only in these; None: in all where the group has state.

        Raises:
            UnknownTopicOrPartition: the group has no state of a topic; nothing was purged.
            GroupIdNotFound, UnsupportedVersion: as :meth:`accept_records`.
        """
        await self.describe_share_groups([group_id])  # an error if the group does not exist
        known = await self.list_share_group_offsets(group_id)
        wanted = None if topics is None else set(topics)
        for name in (wanted or set()) - {at.topic for at in known}:
            raise UnknownTopicOrPartition(f"{group_id} has no state of {name}")
        chosen = [at for at in known if wanted is None or at.topic in wanted]
        ends = await self._ask(purge_ends, chosen, older_than_ms)
        return {
            at: await self._by_hand(group_id, at, 0, end - 1, AckType.GAP)
            for at, end in ends.items()
            if end > 0
        }

    async def _by_hand(
        self,
        group_id: str,
        at: TopicPartition,
        first: int,
        last: int | None,
        kind: AckType,
        *,
        reason: str | None = None,
        extend_ms: int | None = None,
    ) -> DecidedRecords:
        ranges = [OffsetRange(first, first if last is None else last)]
        return await self._ask(
            decide_records, group_id, at, ranges, kind, reason=reason, extend_ms=extend_ms
        )

    async def pause_group(self, group_id: str) -> None:
        """Deliver no records to a share group until :meth:`resume_group`, also after a restart of
        the broker (group config ``share.paused``). Fetches wait, acknowledgements work, and locks
        run out as ever.

        Raises:
            GroupIdNotFound: there is no such group.
            GroupAuthorizationFailed: no permission to see the group, or to alter its settings.
            UnsupportedVersion: the broker, such as Apache Kafka, cannot pause a group.
        """
        await self._ask(set_paused, group_id, paused=True)

    async def resume_group(self, group_id: str) -> None:
        """Deliver records to a share group again. Raises as :meth:`pause_group` does."""
        await self._ask(set_paused, group_id, paused=False)

    async def settings_of_groups(
        self, groups: Iterable[str], *names: str
    ) -> dict[str, dict[str, str]]:
        """Some settings of many groups, by group and by name. Settings that have no value, that the
        broker does not know or that may not be seen are left out.
        """
        return await self._ask(settings_of_groups, list(groups), names)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move a share group that has no members to these offsets. The state of records in flight
        is dropped. A group that does not exist is created. Returns each partition's error; None is
        success.

        Raises:
            NonEmptyGroup: the group has members; nothing was moved.
        """
        return await self._ask(group_requests.alter_share_group_offsets, group_id, offsets)

    async def fork_share_group(self, source: str, group_id: str) -> list[TopicPartition]:
        """Let the share group ``group_id``, which has no members or does not exist, begin with the
        state of every record of the group ``source``: what is finished there is finished here, too,
        and what members hold there is available here. Its own state of these topics is dropped; its
        settings stay. Returns the partitions.

        Raises:
            GroupIdNotFound: there is no group ``source``.
            NonEmptyGroup: ``group_id`` has members; nothing was changed.
            InvalidRequest: both are the same group.
            GroupAuthorizationFailed, TopicAuthorizationFailed: no permission to read both groups,
                and all topics of ``source``.
            UnsupportedVersion: the broker, such as Apache Kafka, cannot do that.
        """
        return await self._ask(group_requests.fork_share_group, source, group_id)

    async def delete_share_group_offsets(
        self, group_id: str, *topics: str
    ) -> dict[str, KafkaError | None]:
        """Delete the state of topics in a share group that has no members: in these topics, it
        begins like a new group. Returns each topic's error; None is success.

        Raises:
            NonEmptyGroup: the group has members; nothing was deleted.
            GroupIdNotFound: there is no such group.
        """
        return await self._ask(group_requests.delete_share_group_offsets, group_id, topics)

    async def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete share groups that have no members. Returns each group's error (NonEmptyGroup,
        GroupIdNotFound …); None is success.
        """
        return await self._ask_each(group_requests.delete_group, groups)

    async def delete_groups(self, *groups: str) -> None:
        """Delete groups that have no members.

        Raises:
            NonEmptyGroup, GroupIdNotFound: the error of the first group that failed.
        """
        or_first_error(await self.delete_share_groups(*groups))

    # --- dead letters of share groups -------------------------------------------------------------

    async def list_dead_letters(
        self,
        group_id: str,
        *,
        where: str | None = None,
        letters_max: int = 10_000,
        dead_letters: str | None = None,
    ) -> list[DeadLetter]:
        """The dead letters of a group that are neither redriven nor purged, at most so many.

        Args:
            where: an expression, as in ``sharegroup groups redrive --help``; None: all.
            dead_letters: the topic that has them; None: the one that the group's config names.

        Raises:
            ConfigError: the expression is wrong, or the group names no dead-letter topic.
        """
        from sharegroup.client.dead_letters.verbs import list_letters

        return await list_letters(self._cluster, group_id, dead_letters, where, letters_max)

    async def redrive_dead_letters(
        self,
        group_id: str,
        *,
        to: str | None = None,
        where: str | None = None,
        rate: float | None = None,
        letters_max: int | None = None,
        dry_run: bool = False,
        dead_letters: str | None = None,
        told: Callable[[LettersProgress], None] | None = None,
    ) -> LettersHandled:
        """Send the records of dead letters again, each once: to the topic and partition that it is
        from, or to the topic ``to`` by its key. Goes on where an interrupted call has ended.

        Args:
            where, dead_letters: as in :meth:`list_dead_letters`.
            rate: letters in a second, at most.
            letters_max: so many letters, at most.
            dry_run: only count.
            told: called with the progress, at the begin and with each transaction.

        Raises:
            ConfigError: as :meth:`list_dead_letters`.
            ProducerFenced: another call has begun to handle these letters.
        """
        from sharegroup.client.dead_letters.handling import Handling
        from sharegroup.client.dead_letters.verbs import expression, handle_letters

        wanted = Handling(
            redrive=True,
            to=to,
            where=expression(where),
            rate=rate,
            letters_max=letters_max,
            dry_run=dry_run,
            told=told,
        )
        return await handle_letters(self._cluster, group_id, dead_letters, wanted)

    async def purge_dead_letters(
        self,
        group_id: str,
        *,
        where: str | None = None,
        dry_run: bool = False,
        dead_letters: str | None = None,
        told: Callable[[LettersProgress], None] | None = None,
    ) -> LettersHandled:
        """Mark dead letters as done: they are not shown or redriven any more, and stay in the topic
        until its retention deletes them. Arguments and errors as :meth:`redrive_dead_letters`.
        """
        from sharegroup.client.dead_letters.handling import Handling
        from sharegroup.client.dead_letters.verbs import expression, handle_letters

        wanted = Handling(redrive=False, where=expression(where), dry_run=dry_run, told=told)
        return await handle_letters(self._cluster, group_id, dead_letters, wanted)

    # --- consumer groups --------------------------------------------------------------------------

    async def describe_consumer_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ConsumerGroupDescription]:
        """Consumer groups by id, of both protocols, with their members.

        Raises:
            GroupIdNotFound: there is no such group, or it is of another type.
        """
        request = consumer_group_requests.describe_consumer_group
        return or_first_error(await self._ask_each(request, groups))

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets in these partitions; by default, in all. A partition
        without a committed offset is left out; so for a group that does not exist the result is
        empty. ``ranges`` are the offsets committed after that offset, if members share partitions
        by key (KIP-X).

        Args:
            require_stable: wait for the end of transactions that have offsets of the group.
        """
        wanted = None if partitions is None else [TopicPartition(*one) for one in partitions]
        identity = MemberIdentity(group_id)
        return await self._ask(
            offset_requests.committed_offsets,
            identity,
            wanted,
            require_stable=require_stable,
            with_ranges=True,
        )

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit these offsets for a group that has no members. A group that does not exist is
        created. Returns each partition's error (UnknownMemberId: the group has members); None is
        success.
        """
        wanted = {
            TopicPartition(*where): OffsetAndMetadata(one) if isinstance(one, int) else one
            for where, one in offsets.items()
        }
        if not wanted:
            return {}
        return await self._ask(consumer_group_requests.alter_offsets, group_id, wanted)

    async def delete_consumer_group_offsets(
        self, group_id: str, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's committed offsets in these partitions. Returns each partition's error
        (GroupSubscribedToTopic: members read the topic); None is success.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: the group's members are no consumers.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        return await self._ask(consumer_group_requests.delete_offsets, group_id, wanted)

    async def delete_consumer_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, and their committed offsets. Returns each group's
        error (NonEmptyGroup, GroupIdNotFound …); None is success.
        """
        return await self.delete_share_groups(*groups)

    async def remove_group_members(
        self, group_id: str, *instance_ids: str, reason: str = "an administrator removed it"
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group, so that others get their partitions at once; without
        names, all members. Returns each member's error, by its instance id, or else by its member
        id; None is success. A member that still runs joins again.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        identity = leave_group.MemberIdentity
        members = [identity("", name, reason) for name in instance_ids]
        if not instance_ids:
            [group] = (await self.describe_consumer_groups([group_id])).values()
            members = [
                identity("" if one.instance_id else one.member_id, one.instance_id, reason)
                for one in group.members
            ]
        if not members:
            return {}
        return await self._ask(consumer_group_requests.remove_members, group_id, members)

    # --- transactions and their producers ---------------------------------------------------------

    async def list_transactions(
        self, *states: str, open_longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids in these states (``Ongoing``; by default, in any) whose last
        transaction began more than ``open_longer_than_ms`` ago (-1: at any time), sorted.
        """
        return await self._ask(transaction_requests.list_transactions, states, open_longer_than_ms)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Transactional ids, with their last transaction.

        Raises:
            TransactionalIdNotFound: there is no such id.
        """
        return or_first_error(
            await self._ask_each(transaction_requests.describe_transaction, transactional_ids)
        )

    async def fence_producers(self, *transactional_ids: str) -> None:
        """Shut out the producers of these ids, and abort their open transactions. An id that does
        not exist is created.

        Raises:
            TransactionalIdAuthorizationFailed: the error of the first id that failed.
        """
        or_first_error(await self._ask_each(transaction_requests.fence_producer, transactional_ids))

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that each partition knows, by id, with their open transactions. Needs READ
        on the topics.

        Raises:
            UnknownTopicOrPartition, TopicAuthorizationFailed: a partition cannot be asked about.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        return await self._ask(transaction_requests.describe_producers, wanted)

    async def abort_transaction(
        self,
        partition: tuple[str, int],
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Abort a transaction in one partition, whatever its coordinator knows: for a transaction
        that hangs there because its coordinator has forgotten it. Needs ALTER on the cluster.

        Raises:
            ClusterAuthorizationFailed, UnknownTopicOrPartition: the transaction was not aborted.
            InvalidProducerEpoch: the partition knows the producer with another epoch.
            TransactionCoordinatorFenced: the partition has heard of a later ``coordinator_epoch``.
        """
        where = TopicPartition(*partition)
        marker = (producer_id, producer_epoch, coordinator_epoch)
        await self._ask(transaction_requests.abort_transaction, where, *marker)

    # --- ACLs -------------------------------------------------------------------------------------

    async def create_acls(self, *acls: Acl) -> None:
        """Make ACLs; one that exists is no error.

        Raises:
            SecurityDisabled: the brokers keep no ACLs.
            ClusterAuthorizationFailed: the call needs ALTER on the cluster.
            InvalidRequest: one of the ACLs makes no sense; the ones before and after it are made.
        """
        await self._ask(acl_requests.create_acls, acls)

    async def describe_acls(self, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
        """The ACLs in force that match the filter; by default all. Needs DESCRIBE on the cluster.

        Raises:
            SecurityDisabled: no ACLs are in force.
        """
        return await self._ask(acl_requests.describe_acls, wanted)

    async def delete_acls(self, *filters: AclFilter) -> dict[Acl, KafkaError | None]:
        """Delete the ACLs that match one of the filters. Needs ALTER on the cluster.

        Returns each ACL's error; None is success. An ACL of a broker's ACL file has an error: it
        stays in force.

        Raises:
            SecurityDisabled: the brokers keep no ACLs.
        """
        return await self._ask(acl_requests.delete_acls, filters)

    # --- quotas of clients (KIP-546) --------------------------------------------------------------

    async def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None
    ) -> list[ClientQuota]:
        """The quotas of just this entity, or all quotas. An entity is a mapping of types (``user``,
        ``client-id``, ``ip``) to names; the name None stands for all clients that have no quota of
        their own.
        """
        return await self._ask(quota_requests.describe_client_quotas, entity)

    async def alter_client_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
    ) -> None:
        """Set quotas of an entity by name, such as ``producer_byte_rate``; None removes one.

        Raises:
            InvalidRequest: the entity, a name or a value is not valid.
        """
        await self._ask(quota_requests.alter_client_quotas, entity, quotas)

    # --- users of SCRAM (KIP-554) -----------------------------------------------------------------

    async def describe_scram_users(self, *names: str) -> list[ScramUser]:
        """These users of SCRAM, or all; sorted. The result has neither passwords nor keys.

        Raises:
            ResourceNotFound: there is no such user.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        return await self._ask(scram_user_requests.describe_scram_users, names)

    async def upsert_scram_user(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = (SCRAM_SHA_512,),
        iterations: int = ITERATIONS_DEFAULT,
        salt: bytes | None = None,
    ) -> None:
        """Create a user of SCRAM, or change the password. The password itself is not sent.

        Args:
            salt: random bytes; None: 24 new bytes for each mechanism.

        Raises:
            UnacceptableCredential: too few iterations, or too many.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        for mechanism in dict.fromkeys(mechanisms):
            change = await salted_password(name, password, mechanism, iterations, salt)
            await self._ask(scram_user_requests.upsert_scram_user, change)

    async def delete_scram_user(self, name: str, *mechanisms: str) -> None:
        """Delete a user's credentials of these mechanisms, or all of them.

        Raises:
            ResourceNotFound: there is no such user.
            ClusterAuthorizationFailed: this client is not allowed to do it.
        """
        kept = mechanisms or tuple((await self.describe_scram_users(name))[0].iterations)
        for mechanism in kept:
            await self._ask(scram_user_requests.delete_scram_user, name, mechanism)

    # --- inside -----------------------------------------------------------------------------------

    async def _ask(
        self,
        request: Callable[Concatenate[Cluster, P], Awaitable[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Retry the request until success, an error that is not transient, or the time-out."""
        await self.start()

        async def attempt() -> T:
            try:
                return await request(self._cluster, *args, **options)
            except NetworkException:
                if len(self._cluster.metadata.nodes) > 1:
                    with suppress(SharegroupError):
                        await self._cluster.refresh()  # the broker may be gone for good
                raise

        return await retrying(self._cluster, attempt, self._timeout_ms, _worth_another_try)

    async def _ask_each(
        self, request: Callable[[Cluster, str], Awaitable[T]], names: Iterable[str]
    ) -> dict[str, T | KafkaError]:
        """The request about each name, retried for itself; its result, or its error."""
        return await of_each(names, lambda name: self._ask(request, name))


def _worth_another_try(error: KafkaError) -> bool:
    """Whether a retry may help. UNKNOWN_TOPIC_OR_PARTITION is retriable in Kafka, but here it is
    raised at once: the caller named the topic.
    """
    return error.retriable and error.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")


def _resource(resource: Resource) -> ResourceType:
    return resource if isinstance(resource, ResourceType) else ResourceType[resource.upper()]
