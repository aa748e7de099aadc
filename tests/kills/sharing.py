"""Members of a consumer group that share partitions by key (KIP-X), several in a process. A record
is noted before the next poll. The variant is how many members.
"""

from __future__ import annotations

import asyncio
import sys

from sharegroup.client import Consumer
from sharegroup.model.errors import KafkaError
from tests.kills.working import PATIENCE_S, Work, give_up

TOPIC, GROUP = "shared", "sharers"
WORK_S = 0.01
"""What a record takes, so that kills meet members at work."""


async def member(work: Work, number: int) -> None:
    """One member."""
    async with Consumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=work.bootstrap,
        key_ranges=True,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        fetch_max_wait_ms=100,
        request_timeout_ms=PATIENCE_S * 1000,
    ) as consumer:
        while not work.stopping:
            for record in await consumer.poll(100):
                await asyncio.sleep(WORK_S)
                work.journal.note(
                    "read",
                    member=number,
                    partition=record.partition,
                    offset=record.offset,
                    key=(record.key or b"").decode(),
                )


async def main(work: Work) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(work.variant)):
            tasks.create_task(member(work, number))


if __name__ == "__main__":
    here = Work(*sys.argv[1:])
    try:
        asyncio.run(main(here))
    except* KafkaError as errors:
        give_up(here, errors.exceptions[0])
