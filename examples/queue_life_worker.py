"""A worker of ``queue_life.py``: it handles payments, and says each step in a line of JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from sharegroup import Record, ShareConsumer

WORK_S = {"plain": 0.6, "flaky": 0.4, "later": 0.4, "wrong": 0.4}
GOOD_AT = 3
"""A flaky payment succeeds at this delivery."""


class Teller:
    """Handles payments. Those that are wrong it can handle once there is a file ``mended``."""

    def __init__(self, mended: Path) -> None:
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
        # A line is one write: of a killed process, whole lines are read.
        print(json.dumps(told), flush=True)


async def main(server: str, mended: str) -> None:
    """Work until SIGTERM."""
    logging.basicConfig(level=logging.ERROR)  # failures are on purpose, and are told as steps
    consumer = ShareConsumer(
        "payments",
        group_id="tellers",
        bootstrap_servers=server,
        acquire_mode="record_limit",  # few at a time, so that the others get some
        max_poll_records=3,
    )
    await consumer.run(Teller(Path(mended)).pay, concurrency=2)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
