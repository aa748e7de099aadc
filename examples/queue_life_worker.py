"""A worker of ``queue_life.py``: it handles payments, and writes what it does into a file."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from sharegroup import Record, ShareConsumer

WORK_S = {"plain": 0.6, "flaky": 0.4, "later": 0.4, "wrong": 0.4}
GOOD_AT = 3
"""A flaky payment succeeds at this delivery."""


class Teller:
    """Handles payments. Those that are wrong it can handle once there is a file ``mended``."""

    def __init__(self, journal: TextIO, mended: Path) -> None:
        self._journal = journal
        self._mended = mended

    async def pay(self, record: Record) -> None:
        """Handle one payment."""
        payment = json.loads(record.value or b"{}")
        self._say("begun", payment)
        await asyncio.sleep(WORK_S[payment["kind"]])  # the work
        try:
            self._book(payment, record.delivery_count)
        except Exception:
            self._say("failed", payment)
            raise
        self._say("done", payment)

    def _book(self, payment: dict[str, Any], delivery_count: int) -> None:
        if payment["kind"] == "flaky" and delivery_count < GOOD_AT:
            raise OSError("the bank is busy")
        if payment["kind"] == "wrong" and not self._mended.exists():
            raise LookupError("no such account")

    def _say(self, what: str, payment: dict[str, Any]) -> None:
        told = {"what": what, "number": payment["number"], "at": time.time()}
        self._journal.write(json.dumps(told) + "\n")


async def work(server: str, teller: Teller) -> None:
    """Work until SIGTERM."""
    consumer = ShareConsumer(
        "payments",
        group_id="tellers",
        bootstrap_servers=server,
        acquire_mode="record_limit",  # few at a time, so that the others get some
        max_poll_records=3,
    )
    await consumer.run(teller.pay, concurrency=2)


def main(server: str, journal: str, mended: str) -> None:
    """Each line of the journal is one write: a killed process leaves whole lines."""
    with Path(journal).open("a", buffering=1) as lines:
        asyncio.run(work(server, Teller(lines, Path(mended))))


if __name__ == "__main__":
    main(*sys.argv[1:])
