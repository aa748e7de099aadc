"""Where SCRAM credentials, ACLs and quotas are kept: an internal topic of one partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.runtime import Growth, Runtime, Spawn
from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.model.environment import Clock
from sharegroup.wire.internal.security import SecurityRecord

T = TypeVar("T")

GROWTH: Final = Growth(records=lambda: 1_000, per_live=2)
"""When the log is rewritten."""


class SecurityStore:
    """See the module."""

    def __init__(self, topic: InternalTopic, clock: Clock) -> None:
        self.changed: list[Callable[[], None]] = []
        """Called after each load, and when a change is durable."""
        self._runtime = Runtime(topic.partition(0), [SecurityMachine], clock, GROWTH, self._loaded)

    @property
    def state(self) -> SecurityMachine:
        """What holds now. Do not keep it across an ``await``."""
        return self._runtime.machine(SecurityMachine)

    async def load(self) -> None:
        """Replay the topic.

        Raises:
            KafkaError: it cannot be read.
        """
        await self._runtime.load()
        self._tell()

    def start(self, spawn: Spawn) -> None:
        """Rewrite a long log from now on."""
        self._runtime.start(spawn)

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

    async def _loaded(self) -> None:
        self._tell()

    def _tell(self) -> None:
        for call in self.changed:
            call()
