from __future__ import annotations

import asyncio

from sharegroup.broker.deadline_timer import DeadlineTimer
from sharegroup.sim import MemoryDisk, SimulatedLoop, simulated_environment


class World:
    """A timer on virtual time, and when it fired, in milliseconds from the start."""

    def __init__(self) -> None:
        self._clock = simulated_environment(MemoryDisk()).clock
        self._start_ms = self._clock.monotonic_ms()
        self._timer = DeadlineTimer(self._clock, lambda: self.fired.append(self._now_ms()))
        self.fired: list[int] = []
        self.close = self._timer.close

    def set(self, after_start_ms: int | None) -> None:
        self._timer.set(None if after_start_ms is None else self._start_ms + after_start_ms)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms() - self._start_ms


def fired(*deadlines_ms: int | None, closed: bool = False) -> list[int]:
    """When a timer fires that is set to each of ``deadlines_ms`` at the start."""

    async def main() -> list[int]:
        world = World()
        for deadline_ms in deadlines_ms:
            world.set(deadline_ms)
        if closed:
            world.close()
            world.set(1)
        await asyncio.sleep(100)
        return world.fired

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main())


def test_it_fires_once_at_the_earliest_deadline() -> None:
    assert fired(3_000, 2_000, 5_000) == [2_000]


def test_a_deadline_in_the_past_is_due_at_once() -> None:
    assert fired(-10) == [0]


def test_without_a_deadline_it_never_fires() -> None:
    assert fired(None) == []


def test_a_closed_timer_never_fires_and_cannot_be_set() -> None:
    assert fired(2_000, closed=True) == []
