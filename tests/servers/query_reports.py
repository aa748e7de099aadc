"""What listeners of Spark have told of their queries."""

from __future__ import annotations

import asyncio

from sharegroup import Consumer
from sharegroup.client.core.query_report import ENDED, FAILED, QUERY_TOPIC, QueryReport, report_of

WAIT_S = 60


async def reports(bootstrap: str) -> list[QueryReport]:
    """The reports of one query, to its end."""
    found: list[QueryReport] = []
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(QUERY_TOPIC, 0)])
        async with asyncio.timeout(WAIT_S):
            while not found or found[-1].state not in (ENDED, FAILED):
                told = [report_of(record.value) for record in await consumer.poll()]
                assert None not in told
                found += [one for one in told if one is not None]
    return found
