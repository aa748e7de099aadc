"""The coordinator of committed offsets: its requests, over the runtimes of ``__consumer_offsets``
(Kafka class OffsetMetadataManager, GroupCoordinatorService).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from sharegroup.broker.coordination.group_registry import CommittingGroups, GroupRegistry
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.log import EndOfTransaction, ProducerEpoch, unavailable
from sharegroup.broker.coordination.offsets_machine import OffsetsMachine
from sharegroup.broker.coordination.runtime import Runtime
from sharegroup.cooperative.intervals import Intervals
from sharegroup.groups.offsets import (
    Commit,
    CommitClient,
    CommittedOffset,
    CommittedOffsets,
    OffsetRecord,
)
from sharegroup.groups.range_commits import AnyRecord
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.ids import TopicPartition
from sharegroup.share_state.partitioning import group_partition

logger = logging.getLogger("sharegroup.broker")

_T = TypeVar("_T")

COMMIT_NAMES_UNKNOWN_GROUPS_FROM: Final = 9
"""To a commit for an unknown group, OffsetCommit answers GROUP_ID_NOT_FOUND from this version on,
and ILLEGAL_GENERATION in earlier versions."""
TXN_COMMIT_NAMES_UNKNOWN_GROUPS_FROM: Final = 6
"""The same for TxnOffsetCommit; before it, ILLEGAL_GENERATION also replaces STALE_MEMBER_EPOCH."""


class OffsetTransaction(NamedTuple):
    """The transaction that offsets are committed in."""

    transactional_id: str
    producer: ProducerEpoch
    version: int
    """The version of the TxnOffsetCommit request. From version 5 on the request itself adds the
    group to the transaction (KIP-890)."""


class TransactionCheck(Protocol):
    """Asks the transaction coordinator about a TxnOffsetCommit (Kafka: verification, KIP-890)."""

    def __call__(self, transaction: OffsetTransaction, offsets_partition: int) -> Awaitable[None]:
        """Allow offsets in this partition of ``__consumer_offsets`` to be part of the transaction.

        Raises:
            KafkaError: the transaction is not this producer's, or does not hold the group.
        """
        ...


async def _no_check(transaction: OffsetTransaction, offsets_partition: int) -> None:
    """Allow everything."""


class _Check:
    """A transaction was allowed to write offsets, and may end before it does."""

    def __init__(self) -> None:
        self.ended = False


class FetchedOffset(NamedTuple):
    """One partition's answer to OffsetFetch."""

    committed: CommittedOffset | None
    unstable: bool
    """An open transaction has an offset of the partition, and the request wants stable offsets."""

    ranges: Intervals = ()
    """The ranges committed after the offset (KIP-X)."""


class SimpleGroups:
    """Groups that exist only because offsets were committed for them from outside the group
    protocol (Kafka: an empty classic group without protocol type). Implements
    ``group_registry.GroupsOfType``. Groups of another type that have offsets are included.
    """

    def __init__(self, runtimes: GroupRuntimes) -> None:
        self._runtimes = runtimes

    def exists(self, group_id: str) -> bool:
        """Whether offsets are committed for the group, or pending."""
        return _offsets(self._runtimes.of(group_id)).has_group(group_id)

    def group_ids(self) -> list[str]:
        """All groups with offsets."""
        return [id_ for runtime in self._runtimes.all() for id_ in _offsets(runtime).group_ids()]

    def list_groups(self) -> list[tuple[str, str]]:
        """(id, state) of all groups with offsets; the state is that of a group without members."""
        return [(group_id, "Empty") for group_id in self.group_ids()]


class OffsetCoordinator:
    """The committed offsets of all groups of this broker.

    ``check_transaction`` is replaced by the transaction coordinator's.
    """

    def __init__(self, runtimes: GroupRuntimes, registry: GroupRegistry, clock: Clock) -> None:
        self._runtimes = runtimes
        self._registry = registry
        self._clock = clock
        self.check_transaction: TransactionCheck = _no_check
        self.commits = 0
        """Offsets committed since the start, in transactions or not."""
        self.progress = asyncio.Event()
        """Set when offsets were committed, and then replaced by a new event."""
        self._checks: dict[int, set[_Check]] = {}
        """Producer → the checks of its transaction after which no offsets were written yet."""

    def count(self) -> int:
        """The number of committed offsets."""
        return sum(len(_offsets(runtime)) for runtime in self._runtimes.all())

    def expired(self) -> int:
        """Offsets deleted because their time was over, since the partitions were loaded."""
        return sum(runtime.machine(OffsetsMachine).expired for runtime in self._runtimes.all())

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that holds a group."""
        return group_partition(group_id, len(self._runtimes.all()))

    # -- requests -----------------------------------------------------------------------------

    async def commit(self, committer: CommitClient, commits: Sequence[Commit]) -> None:
        """Commit offsets outside a transaction; they are durable on return.

        Raises:
            GroupIdNotFound, IllegalGeneration: there is no such group.
            KafkaError: as ``CommittingGroups.check_commit``; or the log failed.
        """

        def decide(machine: OffsetsMachine) -> tuple[None, Sequence[AnyRecord]]:
            self.check_committer(committer, commits)
            return None, machine.commit(committer.group_id, commits)

        await self._forget_ranges(committer, commits)
        await self.decide(committer.group_id, decide)
        self.progressed(len(commits))

    async def commit_in_transaction(
        self,
        committer: CommitClient,
        transaction: OffsetTransaction,
        commits: Sequence[Commit],
    ) -> None:
        """Commit offsets in a transaction; they are durable on return, and pending until its end.

        Raises:
            GroupIdNotFound, IllegalGeneration: there is no such group.
            InvalidProducerEpoch: a later epoch of the producer is known.
            InvalidTxnState: the transaction has ended meanwhile.
            KafkaError: as ``check_transaction`` or ``CommittingGroups.check_commit``; or the log
                failed.
        """
        await self.commit_ranges_in_transaction(
            committer, transaction, commits, lambda _machine: commits
        )

    async def commit_ranges_in_transaction(
        self,
        committer: CommitClient,
        transaction: OffsetTransaction,
        commits: Sequence[Commit],
        offsets_after: Callable[[OffsetsMachine], Sequence[Commit]],
    ) -> None:
        """As :meth:`commit_in_transaction`, for offsets that are known only when they are written.

        Args:
            commits: names the partitions.
            offsets_after: the offsets to commit there; may raise KafkaError.
        """
        group_id, producer = committer.group_id, transaction.producer

        def decide(machine: OffsetsMachine) -> tuple[None, Sequence[AnyRecord]]:
            self.check_committer(committer, commits)
            if check.ended:
                raise errors.InvalidTxnState("The transaction has ended.")
            self._runtimes.of(group_id).check_producer(producer)
            return None, machine.offsets.commit(group_id, offsets_after(machine), *producer)

        # Outside the block below: the check may wait for the end of the producer's last
        # transaction, which must not be taken for the end of this one.
        await self.check_transaction(transaction, self.partition_of(group_id))
        with self._checking(producer.producer_id) as check:
            await self.decide(group_id, decide)
        self.commits += len(commits)

    async def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
    ) -> None:
        """Write the marker of a transaction to a partition of ``__consumer_offsets``. Returns when
        the marker is durable; then the pending offsets are committed or dropped. May be repeated.

        Raises:
            InvalidProducerEpoch: a later epoch of the producer is known.
            KafkaError: the log failed; call this again.
        """
        for check in self._checks.get(producer_id, ()):
            check.ended = True
        runtime, producer = (
            self._runtimes.all()[partition],
            ProducerEpoch(producer_id, producer_epoch),
        )

        def forget(machine: OffsetsMachine) -> tuple[None, Sequence[AnyRecord]]:
            runtime.check_producer(producer)
            return None, machine.individual.drop_ahead(producer_id)

        with unavailable():
            await runtime.load()
            # As in _forget_ranges; more ranges may come while the null records become durable.
            while committed and runtime.machine(OffsetsMachine).individual.going_back(producer_id):
                await runtime.commit(OffsetsMachine, forget)
            await runtime.end_transaction(EndOfTransaction(producer, committed, coordinator_epoch))
        self.progressed(0)

    async def fetch(
        self,
        group_id: str,
        member_id: str | None,
        member_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        stable: bool,
    ) -> list[FetchedOffset]:
        """The committed offsets of some partitions of a group, in their order.

        Raises:
            KafkaError: as ``CommittingGroups.check_fetch``; or the log failed.
        """

        def query(machine: OffsetsMachine) -> list[FetchedOffset]:
            offsets = machine.offsets
            if not self._may_fetch(group_id, member_id, member_epoch):
                return [FetchedOffset(None, unstable=False)] * len(partitions)
            return [
                FetchedOffset(
                    offsets.get(group_id, *where),
                    stable and offsets.is_pending(group_id, *where),
                    machine.individual.of(group_id, *where),
                )
                for where in partitions
            ]

        return await self._query(group_id, query)

    async def fetch_all(
        self, group_id: str, member_id: str | None, member_epoch: int, *, stable: bool
    ) -> Mapping[str, Mapping[int, FetchedOffset]]:
        """All committed offsets of a group by topic and partition.

        Raises:
            KafkaError: as ``CommittingGroups.check_fetch``; or the log failed.
        """

        def query(machine: OffsetsMachine) -> Mapping[str, Mapping[int, FetchedOffset]]:
            offsets = machine.offsets
            if not self._may_fetch(group_id, member_id, member_epoch):
                return {}
            return {
                topic: {
                    partition: FetchedOffset(
                        committed,
                        stable and offsets.is_pending(group_id, topic, partition),
                        machine.individual.of(group_id, topic, partition),
                    )
                    for partition, committed in partitions.items()
                }
                for topic, partitions in offsets.of_group(group_id).items()
            }

        return await self._query(group_id, query)

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> frozenset[str]:
        """Delete a group's offsets of some partitions. Returns the topics to which a member
        subscribes: their offsets stay.

        Raises:
            GroupIdNotFound: there is no such group, or it has no committed offsets by its type.
            NonEmptyGroup: as ``CommittingGroups.check_offset_delete``.
            KafkaError: the log failed.
        """
        wanted = list(partitions)

        def decide(machine: OffsetsMachine) -> tuple[frozenset[str], Sequence[AnyRecord]]:
            groups = self._groups_of(group_id)
            kept: frozenset[str] = frozenset()
            if groups is not None:
                groups.check_offset_delete(group_id)
                topics = {where.topic for where in wanted}
                kept = frozenset(topic for topic in topics if groups.subscribes(group_id, topic))
            elif not machine.offsets.has_group(group_id):
                raise errors.GroupIdNotFound(f"Group {group_id} not found.")
            gone = [where for where in wanted if where.topic not in kept]
            return kept, machine.deleted(machine.offsets.delete(group_id, gone))

        return await self.decide(group_id, decide)

    # -- other parts of the broker ------------------------------------------------------------

    async def delete_group(self, group_id: str) -> bool:
        """Delete all offsets of a group that is being deleted; its type must have allowed the
        deletion. Returns whether the group had offsets.

        Raises:
            KafkaError: the log failed.
        """

        def decide(machine: OffsetsMachine) -> tuple[bool, Sequence[AnyRecord]]:
            found = machine.offsets.has_group(group_id)
            return found, machine.deleted(machine.offsets.delete_group(group_id))

        return await self.decide(group_id, decide)

    async def topic_deleted(self, name: str, topic_id: UUID) -> None:
        """Delete the offsets of all groups in a deleted topic. Partitions of
        ``__consumer_offsets`` that are not loaded forget the topic at their next load.

        Raises:
            KafkaError: a log failed.
        """
        await self._delete_everywhere(lambda offsets: offsets.delete_topic(name, topic_id))

    async def forget_missing(self, id_of: Callable[[str], UUID | None]) -> None:
        """Delete the offsets in topics that do not exist any more. Called after each load, for
        topics that were deleted before it. ``id_of`` returns the id of the topic with a name."""
        try:
            await self._delete_everywhere(lambda offsets: offsets.delete_missing(id_of))
        except errors.KafkaError as error:
            logger.warning("offsets in deleted topics cannot be deleted yet: %s", error)

    # -- the rest -----------------------------------------------------------------------------

    @contextmanager
    def _checking(self, producer_id: int) -> Iterator[_Check]:
        """A check of a producer's transaction. Offsets that are written after the check must not
        come after the transaction's marker: nothing would end them (Kafka class VerificationGuard).
        """
        check = _Check()
        checks = self._checks.setdefault(producer_id, set())
        checks.add(check)
        try:
            yield check
        finally:
            checks.discard(check)
            if not checks:
                self._checks.pop(producer_id, None)

    def _groups_of(self, group_id: str) -> CommittingGroups | None:
        """All groups of this group's type. None for a simple group, and if there is no such group.

        Raises:
            GroupIdNotFound: groups of this type have no committed offsets.
        """
        found = self._registry.committing(group_id)
        if found is None and self._registry.type_of(group_id) not in (None, "classic"):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return found

    def check_committer(self, committer: CommitClient, commits: Sequence[Commit]) -> None:
        """Allow a commit, and note that the member is alive (Kafka's validateOffsetCommit and
        validateTransactionalOffsetCommit).

        Raises:
            GroupIdNotFound, IllegalGeneration: there is no such group.
            KafkaError: as ``CommittingGroups.check_commit``.
        """
        group_id = committer.group_id
        groups = self._groups_of(group_id)
        if groups is not None:
            partitions = [(one.committed.topic_id, one.partition) for one in commits]
            try:
                groups.check_commit(committer, partitions)
            except errors.StaleMemberEpoch as error:
                if not committer.transactional or _names_unknown(committer):
                    raise
                raise errors.IllegalGeneration from error
            if not committer.transactional:
                groups.committed(committer)
        elif committer.epoch < 0:
            return  # a commit from outside the group protocol: the group is or becomes simple
        elif self._registry.type_of(group_id) is not None:
            raise errors.UnknownMemberId
        elif _names_unknown(committer):
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        else:
            raise errors.IllegalGeneration

    def _may_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> bool:
        """Whether the group may have offsets; a group that does not exist has none."""
        try:
            groups = self._groups_of(group_id)
        except errors.GroupIdNotFound:
            return False
        if groups is not None:
            groups.check_fetch(group_id, member_id, member_epoch)
        return True

    def progressed(self, commits: int) -> None:
        """Offsets were committed: wake the transactional commits that wait for them."""
        self.commits += commits
        self.progress.set()
        self.progress = asyncio.Event()

    async def _forget_ranges(self, committer: CommitClient, commits: Sequence[Commit]) -> None:
        """Forget the ranges of partitions before a plain offset is committed there. The offset may
        move the group back, and a crash must not leave ranges after the offset: they would hide
        records."""
        group_id, partitions = committer.group_id, [one.where for one in commits]

        def decide(machine: OffsetsMachine) -> tuple[None, Sequence[AnyRecord]]:
            self.check_committer(committer, commits)
            return None, machine.individual.drop(group_id, partitions)

        runtime = self._runtimes.of(group_id)
        await runtime.load_or_refuse()
        if runtime.machine(OffsetsMachine).individual.has_any(group_id, partitions):
            await self.decide(group_id, decide)

    async def decide(
        self,
        group_id: str,
        decide: Callable[[OffsetsMachine], tuple[_T, Sequence[AnyRecord]]],
    ) -> _T:
        """Decide on offsets of a group; the decision is durable on return. Raises KafkaError."""
        runtime = self._runtimes.of(group_id)
        await runtime.load_or_refuse()
        with unavailable():
            return await runtime.commit(OffsetsMachine, decide)

    async def _query(self, group_id: str, query: Callable[[OffsetsMachine], _T]) -> _T:
        runtime = self._runtimes.of(group_id)
        await runtime.load_or_refuse()
        with unavailable():
            return await runtime.read(OffsetsMachine, query)

    async def _delete_everywhere(
        self, delete: Callable[[CommittedOffsets], Sequence[OffsetRecord]]
    ) -> None:
        for runtime in self._runtimes.all():
            if runtime.loaded and _offsets(runtime).size():
                _, written = runtime.begin(
                    OffsetsMachine, lambda machine: (None, machine.deleted(delete(machine.offsets)))
                )
                if written.records:
                    await runtime.settle(written)


def expire_group(
    offsets: CommittedOffsets,
    group_id: str,
    registry: GroupRegistry,
    now_ms: int,
    retention_ms: int,
) -> Sequence[OffsetRecord]:
    """Delete a group's expired offsets, by the group's type. ``now_ms``: ms since 1970."""
    groups = registry.committing(group_id)
    if groups is None:
        return offsets.expire(group_id, now_ms, retention_ms, None, lambda _: False)
    if groups.keeps_offsets(group_id):
        return ()
    since_ms = groups.empty_since_ms(group_id)
    return offsets.expire(
        group_id, now_ms, retention_ms, since_ms, partial(groups.subscribes, group_id)
    )


def _names_unknown(committer: CommitClient) -> bool:
    if committer.transactional:
        return committer.version >= TXN_COMMIT_NAMES_UNKNOWN_GROUPS_FROM
    return committer.version >= COMMIT_NAMES_UNKNOWN_GROUPS_FROM


def _offsets(runtime: Runtime) -> CommittedOffsets:
    return runtime.machine(OffsetsMachine).offsets
