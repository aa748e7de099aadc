"""A pool as a program of its own, for tests that kill it.

    python key_pool_program.py SERVER TOPIC GROUP JOURNAL

Each record that is handled is a line in JOURNAL: its number.
"""

from __future__ import annotations

import asyncio
import os
import sys

from sharegroup import Consumer
from sharegroup.client import ConsumerRecord


async def main(server: str, topic: str, group: str, journal: str) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0.01)
        os.write(file, b"%s\n" % (record.value or b""))

    async with (
        Consumer(
            topic,
            group_id=group,
            bootstrap_servers=server,
            auto_offset_reset="earliest",
            group_protocol="classic",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        ) as consumer,
        consumer.by_key(workers=5, commit_interval_s=0.05) as pool,
    ):
        await pool.run(handle)


asyncio.run(main(*sys.argv[1:]))
