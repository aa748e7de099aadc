"""Redrives the letters of a group, as a process that can be killed:
``python -m tests.client.redrive_program BOOTSTRAP GROUP [STEP NUMBER]``.

It kills itself at the NUMBER-th STEP, such as ``sent 2``. It says each step in a line on stdout.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter

from sharegroup.client.core.dead_letter import LettersProgress
from sharegroup.client.dead_letters.handling import Handling, handle
from sharegroup.client.dead_letters.queue import dead_letter_queue
from sharegroup.client.network.cluster import Cluster

AT_ONCE = 10
"""Letters in a transaction."""


async def main(bootstrap: str, group: str, step: str = "", number: str = "0") -> None:
    seen: Counter[str] = Counter()

    def told(progress: LettersProgress) -> None:
        sys.stdout.write(f"{progress.step}\n")
        sys.stdout.flush()
        seen[progress.step] += 1
        if (progress.step, seen[progress.step]) == (step, int(number)):
            os.kill(os.getpid(), signal.SIGKILL)

    async with dead_letter_queue(Cluster(bootstrap), group) as queue:
        await handle(queue, Handling(redrive=True, told=told, at_once=AT_ONCE))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
