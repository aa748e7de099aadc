"""The way of each record of a queue: handled, tried again later, sent for later, held by a worker
that dies, dead, and run again.

    python examples/queue_life.py

It starts a broker, sends payments, and lets three processes handle them (``queue_life_worker.py``).
One of them is killed. The bank's list is wrong at first, so some payments fail for good; then the
list is mended, and their dead letters are redriven. It takes some 15 s, checks that each payment
was handled once, and draws each one's way into ``queue-life.png`` (needs matplotlib).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Final

from queue_life_picture import Event, Story, draw
from sharegroup import Admin, Producer
from sharegroup.testing import broker

TOPIC, DEAD, GROUP = "payments", "dlq.payments", "tellers"
SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "3",
    "share.release.backoff.ms": "700",  # then twice as long
    "share.record.schedule.header.enable": "true",
    "errors.deadletterqueue.topic.name": DEAD,
    "errors.deadletterqueue.copy.record.enable": "true",
}
PAYMENTS: Final = ("plain",) * 12 + ("flaky",) * 4 + ("later",) * 4 + ("wrong",) * 3
"""What becomes of each. A flaky one fails the first two times. One that is wrong fails until the
list is mended."""
LATER_S: Final = 6.0
KILL_S: Final = 0.2
"""How long the worker that is killed has had the payment in its hands."""
WAIT_S: Final = 90.0
HERE: Final = Path(__file__).resolve().parent


class NotDone(Exception):
    """The payments were not handled in time, or not as they should be."""


class Worker:
    """A process that handles payments, and writes what it does into a file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.journal = folder / f"{name}.jsonl"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, bootstrap: str, mended: Path) -> None:
        """Start it. It handles the payments that are wrong once there is a file ``mended``."""
        program = [str(HERE / "queue_life_worker.py"), bootstrap, str(self.journal), str(mended)]
        self._process = await asyncio.create_subprocess_exec(sys.executable, *program)

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal, unless it has ended, and wait until it has."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()

    def is_busy(self) -> bool:
        """Whether it has begun a payment some time ago that it has not ended."""
        last = {event.number: event for event in self.events()}
        return any(one.what == "begun" and time.time() - one.at > KILL_S for one in last.values())

    def events(self) -> list[Event]:
        """What it has done so far."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [Event(self.name, **json.loads(line)) for line in lines]


async def prepare(bootstrap: str) -> None:
    """The topics, and the rules of the group."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=1)
        await admin.create_topics(DEAD, configs={"errors.deadletterqueue.group.enable": "true"})
        await admin.alter_configs("group", GROUP, SETTINGS)


async def send(bootstrap: str, story: Story) -> None:
    """Send the payments; some of them are for later."""
    async with Producer(bootstrap) as producer:
        for number, kind in enumerate(PAYMENTS):
            story.sent[number] = time.time()
            due = time.time() + LATER_S + number / 10 if kind == "later" else None
            if due is not None:
                story.due[number] = due
            await producer.send(
                TOPIC,
                json.dumps({"number": number, "kind": kind}),
                deliver_at=None if due is None else round(due * 1000),
            )


async def until(done: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for it, and raise NotDone if it takes too long."""
    end = time.monotonic() + WAIT_S
    while True:
        found = done()
        if await found if isawaitable(found) else found:
            return
        if time.monotonic() > end:
            raise NotDone("the payments were not handled in time")
        await asyncio.sleep(0.05)


async def work(bootstrap: str, story: Story, folder: Path) -> None:
    """Let the processes handle all payments; kill one of them, mend the list, redrive."""
    mended = folder / "mended"
    workers = [Worker(name, folder) for name in ("ann", "bob", "cid")]

    def events() -> list[Event]:
        return [event for worker in workers for event in worker.events()]

    def handled() -> set[int]:
        return {event.number for event in events() if event.what == "done"}

    found: list[Worker] = []

    def busy() -> bool:
        found[:] = [worker for worker in workers if worker.is_busy()]
        return bool(found)

    try:
        for worker in workers:
            await worker.start(bootstrap, mended)
        await until(busy)
        story.killed = (found[0].name, time.time())
        await found[0].end(signal.SIGKILL)
        good = {number for number, kind in enumerate(PAYMENTS) if kind != "wrong"}
        await until(lambda: good <= handled())
        async with Admin(bootstrap) as admin:

            async def dead() -> bool:
                return len(await admin.list_dead_letters(GROUP)) == PAYMENTS.count("wrong")

            await until(dead)
            mended.touch()
            story.redriven = time.time()
            await admin.redrive_dead_letters(GROUP)
        await until(lambda: len(handled()) == len(PAYMENTS))
    finally:
        for worker in workers:
            await worker.end()
    story.events = sorted(events(), key=lambda event: event.at)


def report(story: Story) -> None:
    """Say what happened.

    Raises:
        NotDone: a payment was not handled, or twice, though no worker was killed between handling
            it and its acknowledgement.
    """
    did = Counter(event.what for event in story.events)
    done = [event for event in story.events if event.what == "done"]
    times = Counter(event.number for event in done)
    lost = did["begun"] - did["done"] - did["failed"]
    print(f"{len(PAYMENTS)} payments: {len(times)} handled, {len(done) - len(times)} of them twice")
    print(f"{did['failed']} attempts failed, {lost} ended with the process that was killed")
    print(f"{PAYMENTS.count('wrong')} became dead letters, and were redriven")
    unsure = {event.number for event in done if event.worker == story.killed[0]}
    if len(times) < len(PAYMENTS) or any(times[each] > 1 for each in times.keys() - unsure):
        raise NotDone(f"not each payment was handled once: {times}")


async def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("queue-life.png"), metavar="FILE")
    options = parser.parse_args()
    story = Story(PAYMENTS)
    with broker() as kafka, tempfile.TemporaryDirectory() as folder:
        await prepare(kafka.bootstrap)
        await send(kafka.bootstrap, story)
        await work(kafka.bootstrap, story, Path(folder))
    report(story)
    draw(options.output, story)
    print(f"their ways: {options.output}")


if __name__ == "__main__":
    asyncio.run(main())
