"""One worker of the pool: a member of the share group ``departures``, in a process of its own.

Cancelled flights are rejected. Very late ones are put back when they come for the first time, and
accepted when they come again, to this worker or another. All others are accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from flights_demo.journal import Decision, Journal, Verdict
from flights_demo.produce import TOPIC
from sharegroup import Record, ShareConsumer

GROUP = "departures"
VERY_LATE_MINUTES = 300


def verdict(flight: dict[str, int | None], delivery_count: int) -> Verdict:
    """The decision about a flight."""
    if flight["dep_time"] is None:
        return "reject"
    if (flight["dep_delay"] or 0) >= VERY_LATE_MINUTES and delivery_count == 1:
        return "release"
    return "accept"


def acknowledge(consumer: ShareConsumer, record: Record) -> Decision:
    """Decide about one record, and tell the consumer; the next commit tells the broker."""
    flight = json.loads(record.value or b"")
    said = verdict(flight, record.delivery_count)
    match said:
        case "accept":
            consumer.accept(record)
        case "reject":
            consumer.reject(record)
        case "release":
            consumer.release(record)
    return Decision(flight["id"], record.partition, said, record.delivery_count)


async def work(bootstrap: str, journal: Journal, stop: asyncio.Event) -> None:
    """Work until told to stop. If the broker goes away, the consumer waits for it."""
    async with ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",  # a new group begins with the first flight
        acknowledgement_mode="explicit",
    ) as consumer:
        while not stop.is_set():
            records = await consumer.poll(timeout_ms=500)
            if not records:
                continue
            journal.decide(acknowledge(consumer, record) for record in records)
            outcomes = await consumer.commit()
            journal.confirm(
                {
                    where.partition: error.name if error else None
                    for where, error in outcomes.items()
                }
            )


async def main() -> None:
    """Work until SIGTERM; then finish the batch in hand, and leave the group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--journal", required=True, type=Path)
    arguments = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with Journal(arguments.journal) as journal:
        await work(arguments.bootstrap, journal, stop)


if __name__ == "__main__":
    asyncio.run(main())
