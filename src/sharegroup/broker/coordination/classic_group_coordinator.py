"""The coordinator of classic groups: their requests, over the runtimes of ``__consumer_offsets``.

A join or a sync may wait for other members. The request then waits as a future with a token, and
the machine answers the token in some later call. A machine that is loaded again knows no tokens:
its clients are told to look for their coordinator again, and join anew, as when Kafka moves a group
to another broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from sharegroup.broker.coordination.classic_groups_machine import ClassicGroupsMachine
from sharegroup.broker.coordination.classic_groups_view import ClassicGroupsView
from sharegroup.broker.coordination.cleaning import Unused
from sharegroup.broker.coordination.consumer_group_coordinator import ConsumerGroupCoordinator
from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.log import unavailable
from sharegroup.broker.coordination.runtime import (
    Runtime,
    Spawn,
    Written,
)
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.classic.requests import (
    ClassicAnswer,
    Effects,
    Join,
    Joined,
    LeavingMember,
    LeftMember,
    Refused,
    Settings,
    Sync,
    Synced,
)
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.limits import MEMBER_ID_PREFIX_LENGTH_MAX

logger = logging.getLogger("sharegroup.broker")

_T = TypeVar("_T")


class _Waiting(NamedTuple):
    """A request that waits for its answer."""

    runtime: Runtime
    machine: ClassicGroupsMachine
    future: asyncio.Future[Joined | Synced | Refused]


class ClassicGroupCoordinator:
    """All classic groups of this broker.

    Args:
        new_id: a random id.
        unused: when empty groups are deleted.
        spawn: runs a coroutine in the background and reports its failure.
    """

    def __init__(
        self,
        clock: Clock,
        new_id: Callable[[], UUID],
        settings: Settings,
        unused: Unused,
        spawn: Spawn,
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        self._settings = settings
        self._unused = unused
        self._spawn = spawn
        self._runtimes: GroupRuntimes
        self._check_type: Callable[[str], None]
        self._consumer: ConsumerGroupCoordinator
        self._closed = False
        self.rebalances = 0
        """Generations whose assignments were handed out since the start."""
        self._waiting: dict[int, _Waiting] = {}
        self._last_token = 0
        self.groups = ClassicGroupsView(
            lambda group_id: _machine(self._runtimes.of(group_id)).groups,
            lambda: [_machine(runtime).groups for runtime in self._runtimes.all()],
            clock,
        )

    @property
    def waiting(self) -> int:
        """Joins and syncs that wait for other members of their groups."""
        return len(self._waiting)

    def new_machine(self) -> ClassicGroupsMachine:
        """An empty machine, for a runtime."""
        groups = ClassicGroups(self._settings)
        return ClassicGroupsMachine(groups, self._clock, self._deliver, self._count, self._unused)

    def start(
        self,
        runtimes: GroupRuntimes,
        check_type: Callable[[str], None],
        consumer: ConsumerGroupCoordinator,
    ) -> None:
        """Use these runtimes, which hold the machines.

        Args:
            check_type: raises KafkaError if a group of another type has the id.
            consumer: serves those members of consumer groups that use the classic protocol.
        """
        self._runtimes = runtimes
        self._check_type = check_type
        self._consumer = consumer

    def close(self) -> None:
        """The broker stops: refuse all requests that wait, and let no further request wait."""
        self._closed = True
        for token in list(self._waiting):
            self._deliver([ClassicAnswer(token, Refused(errors.NotCoordinator()))])

    def new_member_id(self, prefix: str) -> str:
        """An id for a new member, which begins with its instance id or client id."""
        return f"{prefix[:MEMBER_ID_PREFIX_LENGTH_MAX]}-{self._new_id()}"

    # Requests --------------------------------------------------------------------------------

    async def join(self, request: Join, taken: Callable[[], None]) -> Joined | Refused:
        """JoinGroup; waits for the other members, except in a consumer group. A consumer group goes
        on as a classic group with its offsets once all its members have left.

        ``taken`` is called before the request waits, when the group has the member's metadata: a
        join that waits must not hold the room that the joins of the other members need.

        Raises:
            InconsistentGroupProtocol: a group of another type has this id.
            KafkaError: the log cannot be read or written.
        """
        with unavailable():
            await self._runtimes.of(request.group_id).load_or_refuse()
            await self._consumer.vacate(request.group_id)
            async with self._runtimes.holding(request.group_id) as runtime:
                await runtime.ensure()
                if self._consumer.has_members(request.group_id):
                    try:
                        joined, written = self._consumer.begin_join(runtime, request)
                    except errors.KafkaError as error:
                        return Refused(error)  # without the member's id, as in Kafka
                    await runtime.settle(written)
                    return joined
                self._check_type(request.group_id)
                token, future = self._begin(
                    runtime,
                    lambda machine, token: machine.groups.join(request, token, machine.now()),
                )
        taken()
        answer = await self._answer(token, future)
        assert not isinstance(answer, Synced)
        return answer

    async def sync(self, request: Sync) -> Synced | Refused:
        """SyncGroup; waits for the leader.

        Raises:
            UnknownMemberId: there is no such group.
            KafkaError: the log cannot be read or written.
        """
        runtime = await self._runtime(request.group_id)
        if self._consumer.groups.exists(request.group_id):
            return await self._consumer.sync(runtime, request)
        with unavailable():
            token, future = self._begin(
                runtime, lambda machine, token: machine.groups.sync(request, token, machine.now())
            )
        answer = await self._answer(token, future)
        assert not isinstance(answer, Joined)
        return answer

    async def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> bool:
        """Heartbeat; returns whether the member must join again.

        Raises:
            KafkaError: as ``ClassicGroups.heartbeat``; or the log cannot be read.
        """
        runtime = await self._runtime(group_id)
        if self._consumer.groups.exists(group_id):
            return await self._consumer.classic_heartbeat(
                runtime, group_id, member_id, instance_id, generation
            )

        def decide(machine: ClassicGroupsMachine) -> tuple[bool, Sequence[ClassicRecord]]:
            must_join = machine.groups.heartbeat(
                group_id, member_id, instance_id, generation, machine.now()
            )
            return must_join, ()

        with unavailable():
            must_join, _ = runtime.begin(ClassicGroupsMachine, decide)
        return must_join

    async def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Sequence[LeftMember]:
        """LeaveGroup, for several members.

        Raises:
            UnknownMemberId: there is no such group.
            KafkaError: the log cannot be read or written.
        """
        runtime = await self._runtime(group_id)
        if self._consumer.groups.exists(group_id):
            return await self._consumer.leave(runtime, group_id, leaving)
        return await self._commit(
            runtime, lambda machine: machine.groups.leave(group_id, leaving, machine.now())
        )

    async def delete(self, group_id: str) -> None:
        """Delete an empty group.

        Raises:
            GroupIdNotFound, NonEmptyGroup: as ``ClassicGroups.delete``.
            KafkaError: the log cannot be read or written.
        """
        async with self._runtimes.holding(group_id) as runtime:
            await self._commit(runtime, lambda machine: (None, machine.groups.delete(group_id)))

    async def rebalance(self, group_id: str) -> None:
        """Make the members of a stable group join again. Raises KafkaError if the log cannot be
        read or written."""
        async with self._runtimes.holding(group_id) as runtime:
            await self._commit(
                runtime,
                lambda machine: (None, machine.groups.rebalance(group_id, machine.now())),
            )

    # Waiting ---------------------------------------------------------------------------------

    def _begin(
        self, runtime: Runtime, decide: Callable[[ClassicGroupsMachine, int], Effects]
    ) -> tuple[int, asyncio.Future[Joined | Synced | Refused]]:
        """Decide on a request that may wait; returns its token and future."""
        if self._closed:
            raise errors.CoordinatorNotAvailable
        self._last_token += 1
        token = self._last_token
        future: asyncio.Future[Joined | Synced | Refused]
        future = asyncio.get_running_loop().create_future()

        def decided(machine: ClassicGroupsMachine) -> tuple[None, Sequence[ClassicRecord]]:
            self._waiting[token] = _Waiting(runtime, machine, future)
            return None, machine.done(decide(machine, token))

        try:
            _, written = runtime.begin(ClassicGroupsMachine, decided)
        except errors.KafkaError:
            self._waiting.pop(token, None)
            self.refuse_orphans()
            raise
        if written.records:
            self._spawn(self._settle(runtime, written))
        return token, future

    async def _answer(
        self, token: int, future: asyncio.Future[Joined | Synced | Refused]
    ) -> Joined | Synced | Refused:
        try:
            return await future
        finally:
            self._waiting.pop(token, None)

    async def _settle(self, runtime: Runtime, written: Written) -> None:
        """Wait until a write is durable: this answers the requests that waited for it. The wait
        goes on even if the client disconnects, because other members wait for the write too."""
        try:
            await runtime.settle(written)
        except errors.KafkaError as error:
            logger.warning("a change of a classic group cannot be written: %s", error)
            self.refuse_orphans()

    async def _commit(
        self,
        runtime: Runtime,
        decide: Callable[[ClassicGroupsMachine], tuple[_T, Effects]],
    ) -> _T:
        """Decide, and return the result once its records are durable."""

        def decided(machine: ClassicGroupsMachine) -> tuple[_T, Sequence[ClassicRecord]]:
            result, effects = decide(machine)
            return result, machine.done(effects)

        with unavailable():
            try:
                result, written = runtime.begin(ClassicGroupsMachine, decided)
                await runtime.settle(written)
            except errors.KafkaStorageError:
                self.refuse_orphans()
                raise
        return result

    def _deliver(self, answers: Sequence[ClassicAnswer]) -> None:
        for token, result in answers:
            waiting = self._waiting.get(token)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_result(result)

    def _count(self, completed: int) -> None:
        self.rebalances += completed

    def refuse_orphans(self) -> None:
        """After a load: refuse the requests that wait in a machine that is no longer in use."""
        self._deliver(
            [
                ClassicAnswer(token, Refused(errors.NotCoordinator()))
                for token, waiting in self._waiting.items()
                if not waiting.runtime.loaded or _machine(waiting.runtime) is not waiting.machine
            ]
        )

    async def _runtime(self, group_id: str) -> Runtime:
        """The loaded runtime of a group. Raises UnknownMemberId if the group does not exist."""
        runtime = self._runtimes.of(group_id)
        await runtime.load_or_refuse()
        consumer = self._consumer.groups.exists(group_id)
        if not consumer and not _machine(runtime).groups.exists(group_id):
            raise errors.UnknownMemberId
        return runtime


def _machine(runtime: Runtime) -> ClassicGroupsMachine:
    return runtime.machine(ClassicGroupsMachine)
