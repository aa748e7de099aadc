"""The coordinator of consumer groups: their requests, over the runtimes of all groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from uuid import UUID

from sharegroup.broker.coordination.consumer_groups_machine import ConsumerGroupsMachine
from sharegroup.broker.coordination.consumer_groups_view import ConsumerGroupsView
from sharegroup.broker.coordination.group_registry import delete_if_empty
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.runtime import Runtime, unavailable
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, HeartbeatResult
from sharegroup.groups.consumer.membership import ConsumerGroups
from sharegroup.groups.consumer.records import ConsumerRecord, GroupMetadata
from sharegroup.groups.consumer.transition import Sees
from sharegroup.groups.heartbeat import JOIN_EPOCH
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.environment import Clock
from sharegroup.model.ids import topic_id_text


class ConsumerGroupCoordinator:
    """All consumer groups of this broker.

    Args:
        new_id: a random id.
        image: returns the topics as they are now.
        check_type: raises GroupIdNotFound if a group of another type has the id.
        vacate_other: deletes an empty classic group of that id, but not its offsets.
    """

    def __init__(
        self,
        runtimes: GroupRuntimes,
        clock: Clock,
        new_id: Callable[[], UUID],
        image: Callable[[], TopicsImage],
        check_type: Callable[[str], None],
        vacate_other: Callable[[str], Awaitable[None]],
    ) -> None:
        self._runtimes = runtimes
        self._clock = clock
        self._new_id = new_id
        self._image = image
        self._check_type = check_type
        self._vacate_other = vacate_other
        self.rebalances = 0
        """Group epochs written since the start."""
        self.groups = ConsumerGroupsView(
            lambda group_id: _groups(runtimes.of(group_id)),
            lambda: [_groups(runtime) for runtime in runtimes.all()],
        )

    async def heartbeat(
        self, request: ConsumerHeartbeat, sees: Sees | None = None
    ) -> HeartbeatResult:
        """Process one heartbeat; its changes are durable on return. A member that joins without an
        id gets one. A group whose members used the classic protocol before goes on with its
        offsets once they have all left.

        Raises:
            GroupIdNotFound: a group of another type has the id.
            KafkaError: as ``ConsumerGroups.heartbeat``; CoordinatorNotAvailable when the log
                cannot be written.
        """

        if not request.member_id:
            request = replace(request, member_id=topic_id_text(self._new_id()))

        def decide(
            machine: ConsumerGroupsMachine,
        ) -> tuple[HeartbeatResult, Sequence[ConsumerRecord]]:
            now_ms = self._clock.monotonic_ms()
            result = machine.groups.heartbeat(request, self._image(), now_ms, sees)
            self.count(result.records)
            return result, result.records

        with unavailable():
            if request.member_epoch == JOIN_EPOCH:
                await self._runtimes.of(request.group_id).load_or_refuse()
                await self._vacate_other(request.group_id)
            async with self._runtimes.holding(request.group_id) as runtime:
                self._check_type(request.group_id)
                await runtime.ensure()
                result, written = runtime.begin(ConsumerGroupsMachine, decide)
            # The lock is free here, so that heartbeats of many members share one fsync.
            await runtime.settle(written)
        return result

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

    async def vacate(self, group_id: str) -> None:
        """As :func:`delete_if_empty`."""
        await delete_if_empty(self.groups, self.delete, group_id)

    def count(self, records: Sequence[ConsumerRecord]) -> None:
        """Count the group epochs among written records."""
        self.rebalances += sum(isinstance(record, GroupMetadata) for record in records)


def _groups(runtime: Runtime) -> ConsumerGroups:
    return runtime.machine(ConsumerGroupsMachine).groups
