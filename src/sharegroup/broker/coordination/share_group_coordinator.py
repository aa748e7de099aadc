"""The coordinator of share groups: their requests, over the runtimes of ``__consumer_offsets``.

A lock per group keeps other requests of the group out between the steps of one request: initialise
delivery state, decide, write.
"""

from __future__ import annotations

import logging
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.log import unavailable
from sharegroup.broker.coordination.persister import Persister
from sharegroup.broker.coordination.runtime import Runtime, Written
from sharegroup.broker.coordination.share_groups_machine import ShareGroupsMachine
from sharegroup.broker.coordination.share_groups_view import ShareGroupsView
from sharegroup.broker.topics import Topics
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.heartbeat import ShareHeartbeat, ShareHeartbeatResult, ToInitialize
from sharegroup.groups.share.records import ShareGroupMetadata, ShareRecord, TopicPartitions
from sharegroup.model.environment import Clock
from sharegroup.model.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.offsets import UNKNOWN_OFFSET

logger = logging.getLogger("sharegroup.broker")

_Records = Sequence[ShareRecord]
_Result = TypeVar("_Result")


class _Decided(Protocol):
    """A result with its records."""

    @property
    def records(self) -> _Records: ...


_Decision = TypeVar("_Decision", bound=_Decided)


class NewStart(NamedTuple):
    """Where an administrator wants a share partition to begin."""

    topic_id: UUID
    topic: str
    partition: int
    start_offset: int


class ShareGroupCoordinator:
    """All share groups of this broker.

    ``check_type`` raises GroupIdNotFound if a group of another type has the id.
    """

    def __init__(
        self,
        runtimes: GroupRuntimes,
        state: Persister,
        clock: Clock,
        topics: Topics,
        check_type: Callable[[str], None],
    ) -> None:
        self._runtimes = runtimes
        self._check_type = check_type
        self._state = state
        self._clock = clock
        self._topics = topics
        self.rebalances = 0
        """Group epochs written since the start."""
        self.groups = ShareGroupsView(
            lambda group_id: _groups(runtimes.of(group_id)),
            lambda: [_groups(runtime) for runtime in runtimes.all()],
        )

    async def check_here(self, group_id: str) -> None:
        """Return if what :attr:`groups` says of a group is all there is: another broker of a fleet
        may have the group.

        Raises:
            NotCoordinator: another one has it.
            CoordinatorLoadInProgress, CoordinatorNotAvailable: as ``Runtime.load_or_refuse``.
        """
        runtime = self._runtimes.of(group_id)
        if not runtime.loaded:
            await runtime.load_or_refuse()

    async def heartbeat(self, request: ShareHeartbeat) -> ShareHeartbeatResult:
        """Process one heartbeat; its changes are durable on return. The answer to a group's first
        heartbeat already has the assignment.

        Raises:
            KafkaError: as ``ShareGroups.heartbeat``; CoordinatorNotAvailable when the log cannot
                be written.
        """
        group_id = request.group_id
        with unavailable():
            async with self._runtimes.holding(group_id) as runtime:
                self._check_type(group_id)
                missing = _groups(runtime).uninitialized(request, self._topics.image)
                await runtime.ensure()
                if missing:
                    await self._initialize(runtime, group_id, missing)
                result, written = self._begin(
                    runtime,
                    lambda groups: _with_records(
                        groups.heartbeat(request, self._topics.image, self._clock.monotonic_ms())
                    ),
                )
            # The lock is free here, so that heartbeats of many members share one fsync.
            await runtime.settle(written)
        return result

    async def delete(self, group_id: str) -> None:
        """Delete an empty group and its delivery state. After a failure this may be called again.

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ShareGroups.begin_deletion``.
            KafkaError: the delivery state could not be deleted.
        """
        async with self._runtimes.holding(group_id) as runtime:
            begun = await self._commit(
                runtime,
                lambda groups: _with_records(groups.begin_deletion(group_id, self._topics.image)),
            )
            await self._state.delete(_keys(group_id, begun.topics))
            await self._commit(runtime, lambda groups: (None, groups.delete(group_id)))

    async def delete_offsets(
        self, group_id: str, names: Sequence[str]
    ) -> tuple[Sequence[TopicPartitions], Mapping[str, KafkaError]]:
        """Delete an empty group's delivery state in some topics. Returns (deleted topics, errors of
        refused topics by name).

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ShareGroups.begin_offsets_deletion``.
            KafkaError: the delivery state could not be deleted.
        """
        async with self._runtimes.holding(group_id) as runtime:
            self._check_type(group_id)
            begun = await self._commit(
                runtime,
                lambda groups: _with_records(
                    groups.begin_offsets_deletion(group_id, names, self._topics.image)
                ),
            )
            if begun.topics:
                await self._state.delete(_keys(group_id, begun.topics))
                gone = [topic.topic_id for topic in begun.topics]
                await self._commit(
                    runtime, lambda groups: (None, groups.offsets_deleted(group_id, gone))
                )
            return begun.topics, begun.refused

    async def alter_offsets(self, group_id: str, starts: Sequence[NewStart]) -> None:
        """Reset an empty group to these start offsets; creates the group if it does not exist.

        The state epoch is raised, so that no pending write of a share-partition leader can undo
        the reset.

        Raises:
            NonEmptyGroup: it has members.
            KafkaError: the delivery state could not be written.
        """
        async with self._runtimes.holding(group_id) as runtime:
            self._check_type(group_id)
            _groups(runtime).check_empty(group_id)
            if not starts:
                return
            await runtime.ensure()
            items = [
                ToInitialize(TopicPartitions(s.topic_id, s.topic, (s.partition,)), s.start_offset)
                for s in starts
            ]
            keys = [SharePartitionKey(group_id, s.topic_id, s.partition) for s in starts]
            above = await self._stored_epoch(keys) + 1
            self._begin(runtime, lambda groups: (None, groups.initializing(group_id, items)))
            await self._initialize_state(runtime, group_id, items, above)
            await self._commit(runtime, lambda groups: (None, groups.initialized(group_id, items)))

    async def fork(self, group_id: str, source_id: str, topics: Sequence[TopicPartitions]) -> None:
        """Let an empty group begin with another group's state of every record, in place of its own;
        creates the group if it does not exist.

        The other group may have members. What they hold is available in the new group.

        Args:
            topics: where the other group has state.

        Raises:
            InvalidRequest: both are the same.
            NonEmptyGroup: the group has members.
            KafkaError: the delivery state could not be written.
        """
        if group_id == source_id:
            raise InvalidRequest(f"A group cannot begin with its own state: {group_id}.")
        keys = _keys(group_id, topics)
        async with self._runtimes.holding(group_id) as runtime:
            self._check_type(group_id)
            _groups(runtime).check_empty(group_id)
            if not keys:
                return
            await runtime.ensure()
            items = [ToInitialize(topic, UNKNOWN_OFFSET) for topic in topics]
            stored = await self._stored_epoch(keys)
            self._begin(runtime, lambda groups: (None, groups.initializing(group_id, items)))
            epoch = max(_groups(runtime).initialization_epoch(group_id), stored + 1)
            await self._state.fork(source_id, keys, epoch)
            await self._commit(runtime, lambda groups: (None, groups.initialized(group_id, items)))

    async def topic_deleted(self, topic_id: UUID) -> None:
        """Forget a deleted topic, and the delivery state of every group in it."""
        for runtime in self._runtimes.all():
            if runtime.loaded:  # otherwise its next load forgets the topic
                await self._forget_topics(runtime, {topic_id})

    async def forget_missing(self) -> None:
        """Forget topics that do not exist any more. Called after each load, for topics that were
        deleted before it. Those of which nobody can tell now stay until the next load."""
        for runtime in self._runtimes.all():
            try:
                if runtime.loaded and self._missing(runtime):
                    # What another broker has made is not known here at once.
                    await self._topics.look()
                    gone = await self._topics.gone(self._missing(runtime))
                    await self._forget_topics(runtime, gone)
            except KafkaError as error:
                logger.warning("deleted topics cannot be removed from share groups yet: %s", error)

    def _missing(self, runtime: Runtime) -> dict[UUID, str]:
        """The topics of groups that are not known here, name by id."""
        known = {info.topic_id for info in self._topics.image.topics.values()}
        names = _groups(runtime).topic_names()
        return {topic_id: name for topic_id, name in names.items() if topic_id not in known}

    async def _forget_topics(self, runtime: Runtime, topic_ids: Collection[UUID]) -> None:
        groups = _groups(runtime)
        gone = groups.topic_ids() & set(topic_ids)
        if not gone:
            return
        keys = [
            key
            for topic_id in gone
            for group_id, topic in groups.holds(topic_id)
            for key in _keys(group_id, [topic])
        ]
        _, written = self._begin(runtime, lambda groups: (None, groups.topics_deleted(gone)))
        await self._state.delete(keys)
        await runtime.settle(written)

    async def _initialize(
        self, runtime: Runtime, group_id: str, missing: Sequence[ToInitialize]
    ) -> None:
        """Initialise delivery state. If this fails, the partitions are not assigned yet, and the
        next heartbeat tries again, as in Kafka. The member gets no error.
        """
        self._begin(runtime, lambda groups: (None, groups.initializing(group_id, missing)))
        try:
            unknown = await self._unknown(group_id, missing)
            await self._initialize_state(runtime, group_id, unknown, 0)
        except KafkaError as error:
            # Another node may know a new topic a moment later than this one.
            level = logging.INFO if isinstance(error, UnknownTopicOrPartition) else logging.WARNING
            said = "delivery state of group %s is not initialised yet: %s"
            logger.log(level, said, group_id, error)
            self._begin(runtime, lambda groups: (None, groups.not_initialized(group_id, missing)))
        else:
            self._begin(runtime, lambda groups: (None, groups.initialized(group_id, missing)))

    async def _unknown(self, group_id: str, missing: Sequence[ToInitialize]) -> list[ToInitialize]:
        """``missing`` without the partitions whose delivery state a leader has already used.

        The group has lost its own records of them in a damaged log. Initialising them again would
        redeliver accepted records.
        """
        unknown: list[ToInitialize] = []
        known = await self._state.read_summaries(_keys(group_id, [one.topic for one in missing]))
        used = {key for key, summary in known.items() if summary.leader_epoch >= 0}
        for item in missing:
            begun = [key.partition for key in _keys(group_id, [item.topic]) if key in used]
            for partition in begun:
                logger.warning("%s continues with its existing delivery state of %s-%d",
                               group_id, item.topic.name, partition)  # fmt: skip
            rest = tuple(p for p in item.topic.partitions if p not in begun)
            if rest:
                topic = TopicPartitions(item.topic.topic_id, item.topic.name, rest)
                unknown.append(ToInitialize(topic, item.start_offset))
        return unknown

    async def _initialize_state(
        self, runtime: Runtime, group_id: str, items: Sequence[ToInitialize], epoch_min: int
    ) -> None:
        """Initialise delivery state with the group's epoch, or with a higher epoch that is stored:
        state that outlived its group must not fence the next group of that name.
        """
        starts = [
            (SharePartitionKey(group_id, item.topic.topic_id, partition), item.start_offset)
            for item in items
            for partition in item.topic.partitions
        ]
        if not starts:
            return
        stored = await self._stored_epoch([key for key, _ in starts])
        epoch = max(_groups(runtime).initialization_epoch(group_id), stored, epoch_min)
        await self._state.initialize(starts, epoch)

    async def _stored_epoch(self, keys: Sequence[SharePartitionKey]) -> int:
        summaries = await self._state.read_summaries(keys)
        return max((summary.state_epoch for summary in summaries.values()), default=0)

    # Deciding --------------------------------------------------------------------------------

    def _begin(
        self, runtime: Runtime, decide: Callable[[ShareGroups], tuple[_Result, _Records]]
    ) -> tuple[_Result, Written]:
        """Decide and submit; settle this write or a later one of the group before answering."""
        with unavailable():
            return runtime.begin(ShareGroupsMachine, self._counted(decide))

    async def _commit(
        self, runtime: Runtime, decide: Callable[[ShareGroups], tuple[_Result, _Records]]
    ) -> _Result:
        """Decide, and return the result once its records are durable."""
        with unavailable():
            return await runtime.commit(ShareGroupsMachine, self._counted(decide))

    def _counted(
        self, decide: Callable[[ShareGroups], tuple[_Result, _Records]]
    ) -> Callable[[ShareGroupsMachine], tuple[_Result, _Records]]:
        def decide_and_count(machine: ShareGroupsMachine) -> tuple[_Result, _Records]:
            result, records = decide(machine.groups)
            self.count(records)
            return result, records

        return decide_and_count

    def count(self, records: _Records) -> None:
        """Count the group epochs among written records."""
        self.rebalances += sum(isinstance(record, ShareGroupMetadata) for record in records)


def _groups(runtime: Runtime) -> ShareGroups:
    return runtime.machine(ShareGroupsMachine).groups


def _with_records(decision: _Decision) -> tuple[_Decision, _Records]:
    return decision, decision.records


def _keys(group_id: str, topics: Iterable[TopicPartitions]) -> list[SharePartitionKey]:
    return [
        SharePartitionKey(group_id, topic.topic_id, partition)
        for topic in topics
        for partition in topic.partitions
    ]
