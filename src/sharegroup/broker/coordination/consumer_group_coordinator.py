"""The coordinator of consumer groups: their requests, over the runtimes of all groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from sharegroup.broker.coordination.consumer_groups_machine import ConsumerGroupsMachine
from sharegroup.broker.coordination.consumer_groups_view import ConsumerGroupsView
from sharegroup.broker.coordination.group_registry import delete_if_empty
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.log import unavailable
from sharegroup.broker.coordination.runtime import Runtime, Written
from sharegroup.broker.time_slices import sliced
from sharegroup.groups.classic.requests import (
    Join,
    Joined,
    LeavingMember,
    LeftMember,
    Refused,
    Sync,
    Synced,
)
from sharegroup.groups.consumer.assigning import Assigning
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, ConsumerHeartbeatResult
from sharegroup.groups.consumer.records import ConsumerGroupMetadata, WrittenRecord
from sharegroup.groups.consumer.transition import Sees
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.environment import Clock
from sharegroup.model.errors import InvalidRegularExpression
from sharegroup.model.ids import topic_id_text

_T = TypeVar("_T")


class ConsumerGroupCoordinator:
    """All consumer groups of this broker.

    Args:
        new_id: a random id.
        image: returns the topics as they are now.
        check_type: raises GroupIdNotFound if a group that is no consumer group, and cannot become
            one, has the id.
    """

    def __init__(
        self,
        runtimes: GroupRuntimes,
        clock: Clock,
        new_id: Callable[[], UUID],
        image: Callable[[], TopicsImage],
        check_type: Callable[[str], None],
    ) -> None:
        self._runtimes = runtimes
        self._clock = clock
        self._new_id = new_id
        self._image = image
        self._check_type = check_type
        self.rebalances = 0
        """Group epochs written since the start."""
        self.groups = ConsumerGroupsView(
            lambda group_id: _groups(runtimes.of(group_id)),
            lambda: [_groups(runtime) for runtime in runtimes.all()],
        )

    async def heartbeat(
        self, request: ConsumerHeartbeat, sees: Sees | None = None
    ) -> ConsumerHeartbeatResult:
        """Process one heartbeat; its changes are durable on return. A member that joins without an
        id gets one. A classic group becomes a consumer group, with its members and offsets.

        Raises:
            GroupIdNotFound: a group of another type has the id.
            KafkaError: as ``ConsumerGroups.heartbeat``; CoordinatorNotAvailable when the log
                cannot be written.
        """

        if not request.member_id:
            request = replace(request, member_id=topic_id_text(self._new_id()))

        def decide(
            machine: ConsumerGroupsMachine,
        ) -> tuple[ConsumerHeartbeatResult, Sequence[WrittenRecord]]:
            now_ms = self._clock.monotonic_ms()
            result = machine.groups.heartbeat(request, self._image(), now_ms, sees)
            self.count(result.records)
            return result, result.records

        with unavailable():
            async with self._runtimes.holding(request.group_id) as runtime:
                self._check_type(request.group_id)
                await self._match(_groups(runtime).assigning, request, sees)
                await runtime.ensure()
                result, written = runtime.begin(ConsumerGroupsMachine, decide)
            # The lock is free here, so that heartbeats of many members share one fsync.
            await runtime.settle(written)
        return result

    async def _match(
        self, assigning: Assigning, request: ConsumerHeartbeat, sees: Sees | None
    ) -> None:
        """Match topics to the regular expressions that the decision on a heartbeat needs, in slices
        of time."""
        topics, now_ms = self._image(), self._clock.monotonic_ms()
        for regex in assigning.to_match(request.group_id, request.subscribed_regex, topics, now_ms):
            # Errors in an expression are reported by the decision.
            with suppress(InvalidRegularExpression):
                async for _ in sliced(assigning.matches.steps(regex, topics)):
                    pass
                if sees is not None:
                    async for name in sliced(assigning.matches.of(regex, topics)):
                        sees(name)  # ``sees`` keeps its answers

    # Members of the classic protocol -----------------------------------------------------------

    def has_members(self, group_id: str) -> bool:
        """Whether the consumer group exists and has members; its partition must be loaded."""
        return _groups(self._runtimes.of(group_id)).has_members(group_id)

    def begin_join(self, runtime: Runtime, request: Join) -> tuple[Joined | Refused, Written]:
        """JoinGroup to a group that has members. The caller must hold the group's lock, and settle
        the returned write before it answers.

        Raises:
            KafkaError: as ``ClassicMembers.join``; or the log failed.
        """
        return runtime.begin(
            ConsumerGroupsMachine,
            lambda machine: self._counted(
                machine.groups.classic_members.join(
                    request, self._image(), self._clock.monotonic_ms()
                )
            ),
        )

    async def sync(self, runtime: Runtime, request: Sync) -> Synced:
        """SyncGroup of a member.

        Raises:
            KafkaError: as ``ClassicMembers.sync``; or the log failed.
        """

        def decide(machine: ConsumerGroupsMachine) -> tuple[Synced, Sequence[WrittenRecord]]:
            now_ms = self._clock.monotonic_ms()
            return machine.groups.classic_members.sync(request, self._image(), now_ms), ()

        return await self._settled(runtime, decide)

    async def classic_heartbeat(
        self,
        runtime: Runtime,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
    ) -> bool:
        """Heartbeat of a member; returns whether it must join again.

        Raises:
            KafkaError: as ``ClassicMembers.heartbeat``; or the log failed.
        """
        return await self._settled(
            runtime,
            lambda machine: self._counted(
                machine.groups.classic_members.heartbeat(
                    group_id,
                    member_id,
                    instance_id,
                    generation,
                    self._image(),
                    self._clock.monotonic_ms(),
                )
            ),
        )

    async def leave(
        self, runtime: Runtime, group_id: str, leaving: Sequence[LeavingMember]
    ) -> Sequence[LeftMember]:
        """LeaveGroup, for members of both protocols.

        Raises:
            KafkaError: the log failed.
        """
        return await self._settled(
            runtime,
            lambda machine: self._counted(
                machine.groups.classic_members.leave(group_id, leaving, self._image())
            ),
        )

    async def _settled(
        self,
        runtime: Runtime,
        decide: Callable[[ConsumerGroupsMachine], tuple[_T, Sequence[WrittenRecord]]],
    ) -> _T:
        with unavailable():
            result, written = runtime.begin(ConsumerGroupsMachine, decide)
            await runtime.settle(written)
        return result

    def _counted(
        self, decided: tuple[_T, Sequence[WrittenRecord]]
    ) -> tuple[_T, Sequence[WrittenRecord]]:
        self.count(decided[1])
        return decided

    # -------------------------------------------------------------------------------------------

    async def delete(self, group_id: str) -> None:
        """Delete an empty group. Its offsets are not touched here.

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ConsumerGroups.delete``.
            KafkaError: the log cannot be written.
        """
        with unavailable():
            async with self._runtimes.holding(group_id) as runtime:
                await runtime.commit(
                    ConsumerGroupsMachine,
                    lambda machine: (None, machine.groups.delete(group_id)),
                )

    async def rebalance(self, group_id: str) -> None:
        """Bump the epoch of a group, so that its members go on from the committed offsets. Raises
        KafkaError if the log cannot be written."""

        def decide(machine: ConsumerGroupsMachine) -> tuple[None, Sequence[WrittenRecord]]:
            records = machine.groups.rebalance(group_id, self._image())
            self.count(records)
            return None, records

        with unavailable():
            async with self._runtimes.holding(group_id) as runtime:
                await runtime.commit(ConsumerGroupsMachine, decide)

    async def vacate(self, group_id: str) -> None:
        """As :func:`delete_if_empty`."""
        await delete_if_empty(self.groups, self.delete, group_id)

    def count(self, records: Sequence[WrittenRecord]) -> None:
        """Count the group epochs among written records."""
        self.rebalances += sum(isinstance(record, ConsumerGroupMetadata) for record in records)


def _groups(runtime: Runtime) -> ConsumerGroups:
    return runtime.machine(ConsumerGroupsMachine).groups
