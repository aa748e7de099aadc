"""The blocking admin client, written by ``scripts/write_sync_admin.py``: do not edit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from sharegroup.client.admin.acls import EVERY_ACL, Acl, AclFilter
from sharegroup.client.admin.admin import BROKERS_DEFAULT, Resource
from sharegroup.client.admin.admin import Admin as AsyncAdmin
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
    ScramUser,
    ShareGroupDescription,
    ShareGroupOffset,
    ShareGroupSummary,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
)
from sharegroup.client.admin.scram_user_requests import ITERATIONS_DEFAULT
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.dead_letter import DeadLetter, LettersHandled, LettersProgress
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.sasl.mechanisms import SCRAM_SHA_512
from sharegroup.sync.front import Front


class Admin(Front):
    """:class:`sharegroup.client.Admin`, blocking; it takes the same arguments, and its methods are
    described there.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        *,
        client_id: str = "sharegroup-admin",
        request_timeout_ms: int = 30_000,
        security: SecuritySettings = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            allow_auto_create_topics=False,
            security=security,
            jitter=jitter,
        )
        self._inner = AsyncAdmin(request_timeout_ms=request_timeout_ms, cluster=self._cluster)
        super().__init__()

    def start(self) -> None:
        """Connect; ``with`` does it by itself."""
        self._run(self._inner.start())

    def close(self) -> None:
        """Disconnect."""
        self._close(self._cluster.close())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        unclosed = self._thread is not None
        super().__del__()  # warns
        if unclosed:
            self._cluster.forsake()

    def create_topics(
        self,
        *names: str,
        partitions: int = BROKERS_DEFAULT,
        replication_factor: int = BROKERS_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create topics, all with the same settings."""
        self._run(
            self._inner.create_topics(
                *names,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def delete_topics(self, *names: str) -> None:
        """Delete topics and all their records."""
        self._run(self._inner.delete_topics(*names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to ``count``; it cannot be lowered."""
        self._run(self._inner.create_partitions(topic, count))

    def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics, by name."""
        return self._run(self._inner.list_topics(include_internal=include_internal))

    def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Topics by name, with their partitions."""
        return self._run(self._inner.describe_topics(*names))

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec | int = OffsetSpec.LATEST,
        *,
        committed: bool = False,
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets of partitions: the end, the start, or the first record whose timestamp is ``at``
        (ms since 1970) or later; -1 if there is no such record.
        """
        return self._run(self._inner.list_offsets(partitions, at, committed=committed))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all). Returns each partition's new start."""
        return self._run(self._inner.delete_records(before))

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._run(self._inner.describe_cluster())

    def describe_configs(self, resource: Resource, name: str) -> dict[str, ConfigSetting]:
        """All settings of a topic, a broker (its node id) or a group, by name."""
        return self._run(self._inner.describe_configs(resource, name))

    def alter_configs(
        self,
        resource: Resource,
        name: str,
        settings: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change these settings only; None resets one to its default."""
        self._run(self._inner.alter_configs(resource, name, settings, validate_only=validate_only))

    def begin_group_at(self, group: str, offset_reset: str) -> bool:
        """Let a share group that does not exist yet begin at ``earliest``, ``latest`` or
        ``by_duration:<ISO-8601 duration>``.
        """
        return self._run(self._inner.begin_group_at(group, offset_reset))

    def list_groups(self, *types: str, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or the groups of these types (``share``) and states (``Empty``, ``Stable``),
        sorted by group id.
        """
        return self._run(self._inner.list_groups(*types, states=states))

    def describe_share_groups(self, groups: Iterable[str]) -> dict[str, ShareGroupDescription]:
        """Share groups by id, with their members."""
        return self._run(self._inner.describe_share_groups(groups))

    def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """The group's offsets in these partitions; by default, in all partitions where it has
        state.
        """
        return self._run(self._inner.list_share_group_offsets(group_id, partitions))

    def summarize_share_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ShareGroupSummary | KafkaError]:
        """Members and offsets of share groups, many in a request: what a list of queues shows."""
        return self._run(self._inner.summarize_share_groups(groups))

    def describe_record_states(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionRecords]:
        """The state of each record in flight; by default, in all partitions where the group has
        state.
        """
        return self._run(self._inner.describe_record_states(group_id, partitions))

    def release_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Let a record that waits for an operator (``share.ordering.on.failure=block``) be
        delivered once more.
        """
        self._run(self._inner.release_blocked_record(group_id, at, offset))

    def archive_blocked_record(self, group_id: str, at: TopicPartition, offset: int) -> None:
        """Give up a record that waits for an operator; its key goes on."""
        self._run(self._inner.archive_blocked_record(group_id, at, offset))

    def accept_records(
        self, group_id: str, at: TopicPartition, first: int, last: int | None = None
    ) -> DecidedRecords:
        """Finish the records ``first`` … ``last`` (``last`` None: one record), as if a consumer had
        accepted them: whether members hold them, they rest, or nobody has got them yet.
        """
        return self._run(self._inner.accept_records(group_id, at, first, last))

    def release_records(
        self, group_id: str, at: TopicPartition, first: int, last: int | None = None
    ) -> DecidedRecords:
        """Let the records be delivered again at once: take them from their holders, end their rest,
        let blocked ones go.
        """
        return self._run(self._inner.release_records(group_id, at, first, last))

    def archive_records(
        self,
        group_id: str,
        at: TopicPartition,
        first: int,
        last: int | None = None,
        *,
        reason: str | None = None,
    ) -> DecidedRecords:
        """Give the records up: they are never delivered again, and become dead letters if the group
        has a topic for them, with ``reason`` as their message.
        """
        return self._run(self._inner.archive_records(group_id, at, first, last, reason=reason))

    def extend_records(
        self,
        group_id: str,
        at: TopicPartition,
        first: int,
        last: int | None = None,
        *,
        extend_ms: int,
    ) -> DecidedRecords:
        """Let the members that hold the records keep them for at least ``extend_ms`` from now on,
        up to a week, whatever the group's lock duration is.
        """
        return self._run(self._inner.extend_records(group_id, at, first, last, extend_ms=extend_ms))

    def purge_group(
        self,
        group_id: str,
        *,
        older_than_ms: int | None = None,
        topics: Iterable[str] | None = None,
    ) -> dict[TopicPartition, DecidedRecords]:
        """Give up all records of a share group that are not finished, also those that members hold
        and those that nobody has got yet. Returns what each partition had, with the offsets that
        the log has no record at.
        """
        return self._run(
            self._inner.purge_group(group_id, older_than_ms=older_than_ms, topics=topics)
        )

    def pause_group(self, group_id: str) -> None:
        """Deliver no records to a share group until :meth:`resume_group`, also after a restart of
        the broker (group config ``share.paused``).
        """
        self._run(self._inner.pause_group(group_id))

    def resume_group(self, group_id: str) -> None:
        """Deliver records to a share group again."""
        self._run(self._inner.resume_group(group_id))

    def settings_of_groups(self, groups: Iterable[str], *names: str) -> dict[str, dict[str, str]]:
        """Some settings of many groups, by group and by name."""
        return self._run(self._inner.settings_of_groups(groups, *names))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move a share group that has no members to these offsets. Returns each partition's error;
        None is success.
        """
        return self._run(self._inner.alter_share_group_offsets(group_id, offsets))

    def fork_share_group(self, source: str, group_id: str) -> list[TopicPartition]:
        """Let the share group ``group_id``, which has no members or does not exist, begin with the
        state of every record of the group ``source``: what is finished there is finished here, too,
        and what members hold there is available here. Returns the partitions.
        """
        return self._run(self._inner.fork_share_group(source, group_id))

    def delete_share_group_offsets(
        self, group_id: str, *topics: str
    ) -> dict[str, KafkaError | None]:
        """Delete the state of topics in a share group that has no members: in these topics, it
        begins like a new group. Returns each topic's error; None is success.
        """
        return self._run(self._inner.delete_share_group_offsets(group_id, *topics))

    def delete_share_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete share groups that have no members. Returns each group's error (NonEmptyGroup,
        GroupIdNotFound …); None is success.
        """
        return self._run(self._inner.delete_share_groups(*groups))

    def delete_groups(self, *groups: str) -> None:
        """Delete groups that have no members."""
        self._run(self._inner.delete_groups(*groups))

    def list_dead_letters(
        self,
        group_id: str,
        *,
        where: str | None = None,
        letters_max: int = 10_000,
        dead_letters: str | None = None,
    ) -> list[DeadLetter]:
        """The dead letters of a group that are neither redriven nor purged, at most so many."""
        return self._run(
            self._inner.list_dead_letters(
                group_id, where=where, letters_max=letters_max, dead_letters=dead_letters
            )
        )

    def redrive_dead_letters(
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
        from, or to the topic ``to`` by its key.
        """
        return self._run(
            self._inner.redrive_dead_letters(
                group_id,
                to=to,
                where=where,
                rate=rate,
                letters_max=letters_max,
                dry_run=dry_run,
                dead_letters=dead_letters,
                told=told,
            )
        )

    def purge_dead_letters(
        self,
        group_id: str,
        *,
        where: str | None = None,
        dry_run: bool = False,
        dead_letters: str | None = None,
        told: Callable[[LettersProgress], None] | None = None,
    ) -> LettersHandled:
        """Mark dead letters as done: they are not shown or redriven any more, and stay in the topic
        until its retention deletes them.
        """
        return self._run(
            self._inner.purge_dead_letters(
                group_id, where=where, dry_run=dry_run, dead_letters=dead_letters, told=told
            )
        )

    def describe_consumer_groups(
        self, groups: Iterable[str]
    ) -> dict[str, ConsumerGroupDescription]:
        """Consumer groups by id, of both protocols, with their members."""
        return self._run(self._inner.describe_consumer_groups(groups))

    def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets in these partitions; by default, in all."""
        return self._run(
            self._inner.list_consumer_group_offsets(
                group_id, partitions, require_stable=require_stable
            )
        )

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit these offsets for a group that has no members. Returns each partition's error
        (UnknownMemberId: the group has members); None is success.
        """
        return self._run(self._inner.alter_consumer_group_offsets(group_id, offsets))

    def delete_consumer_group_offsets(
        self, group_id: str, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's committed offsets in these partitions. Returns each partition's error
        (GroupSubscribedToTopic: members read the topic); None is success.
        """
        return self._run(self._inner.delete_consumer_group_offsets(group_id, *partitions))

    def delete_consumer_groups(self, *groups: str) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, and their committed offsets. Returns each group's
        error (NonEmptyGroup, GroupIdNotFound …); None is success.
        """
        return self._run(self._inner.delete_consumer_groups(*groups))

    def remove_group_members(
        self, group_id: str, *instance_ids: str, reason: str = "an administrator removed it"
    ) -> dict[str, KafkaError | None]:
        """Remove static members from a group, so that others get their partitions at once; without
        names, all members. Returns each member's error, by its instance id, or else by its member
        id; None is success.
        """
        return self._run(self._inner.remove_group_members(group_id, *instance_ids, reason=reason))

    def list_transactions(
        self, *states: str, open_longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids in these states (``Ongoing``; by default, in any) whose last
        transaction began more than ``open_longer_than_ms`` ago (-1: at any time), sorted.
        """
        return self._run(
            self._inner.list_transactions(*states, open_longer_than_ms=open_longer_than_ms)
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Transactional ids, with their last transaction."""
        return self._run(self._inner.describe_transactions(transactional_ids))

    def fence_producers(self, *transactional_ids: str) -> None:
        """Shut out the producers of these ids, and abort their open transactions."""
        self._run(self._inner.fence_producers(*transactional_ids))

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that each partition knows, by id, with their open transactions."""
        return self._run(self._inner.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: tuple[str, int],
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Abort a transaction in one partition, whatever its coordinator knows: for a transaction
        that hangs there because its coordinator has forgotten it.
        """
        self._run(
            self._inner.abort_transaction(
                partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        )

    def create_acls(self, *acls: Acl) -> None:
        """Make ACLs; one that exists is no error."""
        self._run(self._inner.create_acls(*acls))

    def describe_acls(self, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
        """The ACLs in force that match the filter; by default all."""
        return self._run(self._inner.describe_acls(wanted))

    def delete_acls(self, *filters: AclFilter) -> dict[Acl, KafkaError | None]:
        """Delete the ACLs that match one of the filters. Returns each ACL's error; None is
        success.
        """
        return self._run(self._inner.delete_acls(*filters))

    def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None
    ) -> list[ClientQuota]:
        """The quotas of just this entity, or all quotas."""
        return self._run(self._inner.describe_client_quotas(entity))

    def alter_client_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
    ) -> None:
        """Set quotas of an entity by name, such as ``producer_byte_rate``; None removes one."""
        self._run(self._inner.alter_client_quotas(entity, quotas))

    def describe_scram_users(self, *names: str) -> list[ScramUser]:
        """These users of SCRAM, or all; sorted."""
        return self._run(self._inner.describe_scram_users(*names))

    def upsert_scram_user(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = (SCRAM_SHA_512,),
        iterations: int = ITERATIONS_DEFAULT,
        salt: bytes | None = None,
    ) -> None:
        """Create a user of SCRAM, or change the password."""
        self._run(
            self._inner.upsert_scram_user(
                name, password, mechanisms=mechanisms, iterations=iterations, salt=salt
            )
        )

    def delete_scram_user(self, name: str, *mechanisms: str) -> None:
        """Delete a user's credentials of these mechanisms, or all of them."""
        self._run(self._inner.delete_scram_user(name, *mechanisms))
