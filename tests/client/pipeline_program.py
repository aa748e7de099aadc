"""Reads jobs as a member of a share group, writes a result for each, and acknowledges them: all in
one transaction. ``python -m tests.client.pipeline_program BOOTSTRAP JOBS RESULTS GROUP [STEP
NUMBER]``.

It kills itself at the NUMBER-th STEP, such as ``held 2``; else it goes on until it is killed. It
says each step in a line on stdout. Every fifth transaction is aborted on purpose.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from itertools import count

from sharegroup.client import Producer, Record, ShareConsumer
from sharegroup.model.errors import SharegroupError

AT_ONCE = 10
"""Records in a transaction."""
ABORTED = 5
"""One of so many."""
PAUSE_S = 0.05
"""Before it begins anew after an error: the broker may be away."""


class OnPurpose(Exception):
    """This transaction is aborted."""


class Steps:
    """Says the steps, and kills the process at one of them."""

    def __init__(self, kill_at: str, number: str) -> None:
        self._kill_at = kill_at, int(number)
        self._seen: Counter[str] = Counter()

    def take(self, step: str) -> None:
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
        self._seen[step] += 1
        if (step, self._seen[step]) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


async def transfer(
    producer: Producer,
    consumer: ShareConsumer,
    records: list[Record],
    results: str,
    steps: Steps,
    *,
    aborts: bool,
) -> None:
    steps.take("read")
    async with producer.transaction() as transaction:
        for record in records:
            await producer.enqueue(results, record.value)
            transaction.acknowledge(consumer, record)
        await producer.flush()
        steps.take("sent")
        await transaction.hold()
        steps.take("held")
        if aborts:
            raise OnPurpose
    steps.take("committed")


async def main(
    bootstrap: str, jobs: str, results: str, group: str, step: str = "", number: str = "0"
) -> None:
    steps = Steps(step, number)
    numbers = count(1)
    while True:
        with suppress(SharegroupError):  # the broker was killed: begin anew
            async with (
                Producer(bootstrap, transactional_id=group) as producer,
                ShareConsumer(
                    jobs,
                    group_id=group,
                    bootstrap_servers=bootstrap,
                    acknowledgement_mode="explicit",
                    acquire_mode="record_limit",
                    max_poll_records=AT_ONCE,
                ) as consumer,
            ):
                steps.take("begun")
                while True:
                    if records := await consumer.poll():
                        aborts = next(numbers) % ABORTED == 0
                        with suppress(OnPurpose):
                            await transfer(
                                producer, consumer, records, results, steps, aborts=aborts
                            )
        await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
