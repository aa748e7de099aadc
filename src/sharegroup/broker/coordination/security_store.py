"""Where SCRAM credentials, ACLs and quotas are kept: an internal topic of one partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from sharegroup.broker.configs.access import DAMAGE_ACCEPTED
from sharegroup.broker.coordination.log import CoordinatorTopic
from sharegroup.broker.coordination.runtime import Growth, Runtime, Spawn
from sharegroup.broker.coordination.security_machine import EncodedAcl, SecurityMachine
from sharegroup.broker.internal_topics import SECURITY
from sharegroup.broker.time_slices import sliced
from sharegroup.model.environment import Clock
from sharegroup.model.errors import KafkaStorageError
from sharegroup.wire.internal.security import AclChange, SecurityRecord, encode_record

logger = logging.getLogger("sharegroup.broker")

T = TypeVar("T")
DecideAcls: TypeAlias = Callable[
    [SecurityMachine], Coroutine[Any, Any, tuple[T, Sequence[AclChange]]]
]
"""Returns the result of a request, and the changes that it makes."""

GROWTH: Final = Growth(records=lambda: 1_000, per_live=2)
"""When the log is rewritten."""


class SecurityStore:
    """See the module."""

    def __init__(self, topic: CoordinatorTopic, clock: Clock) -> None:
        self.changed: list[Callable[[], None]] = []
        """Called after each load, and when a change is durable."""
        self._log = topic.partition(0)
        self._changing_acls = asyncio.Lock()
        self._runtime = Runtime(self._log, [SecurityMachine], clock, GROWTH, self._loaded)

    @property
    def state(self) -> SecurityMachine:
        """The credentials, ACLs and quotas in force. Do not keep it across an ``await``."""
        return self._runtime.machine(SecurityMachine)

    async def load(self, *, lost_before: int = 0) -> None:
        """Replay the topic. Damaged records keep the broker from starting: one of them may be a
        denial, or the deletion of a user.

        Args:
            lost_before: the operator knows that records below this offset are lost.

        Raises:
            KafkaStorageError: the topic, or a part of it, cannot be read.
        """
        await self._runtime.load()
        if self._log.left_out:
            self._check_lost(lost_before)
            await self._runtime.rewrite()  # from now on the damage lies before the log start
        self._tell()

    def _check_lost(self, lost_before: int) -> None:
        end = max(last for _, last in self._log.left_out) + 1
        if end > lost_before:
            ranges = ", ".join(f"{first} to {last}" for first, last in self._log.left_out)
            raise KafkaStorageError(
                f"users, ACLs or quotas are lost: {SECURITY} is damaged (offsets {ranges}), and a "
                "denial may be among them. Restore the folder from a backup; or start once with "
                f"-o {DAMAGE_ACCEPTED}={end}, on an address that nobody else reaches, and put "
                "right what `sharegroup users list`, `acls list` and `quotas list` show"
            )
        logger.warning("%s: the loss of records before offset %d is accepted", SECURITY, end)

    def start(self, spawn: Spawn) -> None:
        """Rewrite a long log from now on."""
        self._runtime.start(spawn)

    def read_again(self) -> None:
        """Another node has made a change."""
        self._runtime.outdated()

    def close(self) -> None:
        """Start no more background work."""
        self._runtime.close()

    async def change(
        self, decide: Callable[[SecurityMachine], tuple[T, Sequence[SecurityRecord]]]
    ) -> T:
        """Make the changes that ``decide`` returns with its result; returns the result when they
        are durable.

        Raises:
            KafkaError: as ``decide``; or the log failed, and nothing has changed.
        """

        def decided(machine: SecurityMachine) -> tuple[T, Sequence[SecurityRecord]]:
            result, records = decide(machine)
            for record in records:
                machine.apply(record)
            return result, records

        result = await self._runtime.commit(SecurityMachine, decided)
        self._tell()
        return result

    async def change_acls(self, decide: DecideAcls[T]) -> T:
        """As :meth:`change`, for very many ACLs at once. ``decide`` may give way to other requests,
        and others are served while the changes are encoded, but no other change of ACLs comes in
        between. All changes take effect in one step, and are one batch of the log. ``decide`` may
        be called again.

        Raises:
            KafkaError: as ``decide``; or the log failed, and nothing has changed.
        """
        async with self._changing_acls:
            while True:
                await self._runtime.load()
                machine = self.state
                result, changes = await decide(machine)
                encoded = [EncodedAcl(it, encode_record(it)) async for it in sliced(changes)]
                apply = partial(_apply_to, machine, encoded)
                same, written = await self._runtime.begin_loaded(SecurityMachine, apply)
                if same:
                    break
        await self._runtime.settle(written)
        self._tell()
        return result

    async def _loaded(self) -> None:
        self._tell()

    def _tell(self) -> None:
        for call in self.changed:
            call()


def _apply_to(
    machine: SecurityMachine, changes: Sequence[EncodedAcl], current: SecurityMachine
) -> tuple[bool, Sequence[EncodedAcl]]:
    """If ``machine`` is still the current one, apply the changes to it. Returns (whether it is, the
    changes to write)."""
    if machine is not current:
        return False, ()  # a write has failed meanwhile, and the log was loaded again
    for change in changes:
        machine.apply(change)
    return True, changes
