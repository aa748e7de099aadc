"""A worker as a program of its own, for tests that send signals to it and kill it.

    python worker_program.py SERVER TOPIC GROUP DEAD JOURNAL [--threads] [--stuck] [--work SECONDS]

Each record that is handled is a line in JOURNAL: its number, and its delivery count. Numbers that
end in 7 are rejected; those that end in 3 fail at their first delivery. ``--stuck``: number 0 is
never done at its first delivery.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import threading

from sharegroup import Record, ShareConsumer
from sharegroup import sync as blocking
from sharegroup.client import Backoff, Reject


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("server", "topic", "group", "dead", "journal"):
        parser.add_argument(name)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--stuck", action="store_true")
    parser.add_argument("--work", type=float, default=0.05)
    parser.add_argument("--drain", type=float, default=30.0)
    return parser.parse_args()


def outcome(record: Record) -> None:
    """Whether this delivery fails."""
    number = int(record.value)
    if number % 10 == 7:
        raise Reject(f"{number} ends in seven")
    if number % 10 == 3 and record.delivery_count == 1:
        raise ValueError(f"{number} needs another try")


def note(journal: int, record: Record) -> None:
    """One write: a kill cannot cut it in two."""
    os.write(journal, f"{int(record.value)} {record.delivery_count}\n".encode())


def main() -> None:
    chosen = options()
    logging.basicConfig(level=logging.INFO)
    journal = os.open(chosen.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    settings = {
        "concurrency": 4,
        "retry": Backoff(first_s=0.2),
        "dead_letter": chosen.dead,
        "drain_s": chosen.drain,
    }

    def is_stuck(record: Record) -> bool:
        return chosen.stuck and int(record.value) == 0 and record.delivery_count == 1

    def in_thread(record: Record) -> None:
        threading.Event().wait(None if is_stuck(record) else chosen.work)
        outcome(record)
        note(journal, record)

    async def on_loop(record: Record) -> None:
        if is_stuck(record):
            await asyncio.Event().wait()
        await asyncio.sleep(chosen.work)
        outcome(record)
        note(journal, record)

    consumer = blocking.ShareConsumer if chosen.threads else ShareConsumer
    worker = consumer(chosen.topic, group_id=chosen.group, bootstrap_servers=chosen.server)
    if chosen.threads:
        worker.run(in_thread, **settings)
    else:
        asyncio.run(worker.run(on_loop, **settings))
    logging.getLogger("worker").info("ended")


if __name__ == "__main__":
    main()
