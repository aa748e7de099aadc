"""One member of a group that handles records: each takes so many seconds, in which nothing is
computed. It is stopped by SIGTERM.

    python -m benchmarks.by_key_program WORKERS SERVER TOPIC GROUP SECONDS

WORKERS is ``plain`` for a consumer that takes one record after the other. Prints, ten times a
second, how many it has handled, and when the first began and the last ended, on the monotonic
clock of the machine.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time

from sharegroup import Consumer
from sharegroup.client import ConsumerRecord

EVERY_S = 0.1
C = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    """C's ``struct itimerspec``."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "s", "ns")]


class Timers:
    """Sleeps as short as the work is. asyncio's own timers count whole milliseconds; a call of
    another service, which the work stands for, ends when it ends.
    """

    def __init__(self, seconds: float) -> None:
        self._time = _Time(0, 0, int(seconds), int(seconds % 1 * 1e9))
        self._free: list[int] = []

    async def sleep(self) -> None:
        """Sleep once."""
        loop = asyncio.get_running_loop()
        number = self._free.pop() if self._free else C.timerfd_create(time.CLOCK_MONOTONIC, 0)
        over = loop.create_future()
        loop.add_reader(number, over.set_result, None)
        C.timerfd_settime(number, 0, ctypes.byref(self._time), None)
        try:
            await over
            os.read(number, 8)
        finally:
            loop.remove_reader(number)
        self._free.append(number)


async def main(workers: str, server: str, topic: str, group: str, seconds: str) -> None:
    timers, handled, began, ended = Timers(float(seconds)), 0, 0.0, 0.0

    async def handle(_: ConsumerRecord) -> None:
        nonlocal handled, began, ended
        began = began or time.monotonic()
        await timers.sleep()
        handled, ended = handled + 1, time.monotonic()

    async def report() -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if handled:
                print(handled, began, ended, flush=True)

    reporting = asyncio.create_task(report())
    async with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=server,
        auto_offset_reset="earliest",
        enable_auto_commit=workers == "plain",
    ) as consumer:
        if workers == "plain":
            async for record in consumer:
                await handle(record)
        else:
            async with consumer.by_key(workers=int(workers)) as pool:
                await pool.run(handle)
    reporting.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
