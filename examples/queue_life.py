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
from pathlib import Path
from typing import Final

from queue_life_picture import Event, Story, draw
from sharegroup import Admin, Consumer, Producer
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
    """Not each payment was handled as it should be."""


class Worker:
    """A process that handles payments, and says what it does, a line for each step."""

    def __init__(self, name: str, tell: Callable[[Event], Awaitable[None]]) -> None:
        self._name = name
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, bootstrap: str, mended: Path) -> None:
        """Start it. It handles the payments that are wrong once there is a file ``mended``."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(HERE / "queue_life_worker.py"), bootstrap, str(mended)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._listening = asyncio.create_task(self._listen(self._process.stdout))

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            await self._tell(Event(self._name, **json.loads(line)))

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal, unless it has ended, and wait until it has."""
        if self._process is None or self._listening is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(how)
        await self._process.wait()
        await self._listening


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


class Work:
    """The processes at work, and what they have done so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.workers = {name: Worker(name, self._happened) for name in ("ann", "bob", "cid")}
        self._news = asyncio.Condition()

    async def _happened(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for what the processes do; raises TimeoutError if it takes too long."""
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(done)

    def handled(self) -> set[int]:
        """The payments that are handled."""
        return {event.number for event in self.events if event.what == "done"}


async def dead_letters(bootstrap: str, count: int) -> None:
    """Wait until there are so many; raises TimeoutError if it takes too long."""
    async with (
        asyncio.timeout(WAIT_S),
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(DEAD, 0)])
        found = 0
        while found < count:
            found += len(await consumer.poll())


async def work(bootstrap: str, story: Story, mended: Path) -> None:
    """Let the processes handle all payments; kill one of them, mend the list, redrive."""
    at_work = Work()
    try:
        for worker in at_work.workers.values():
            await worker.start(bootstrap, mended)
        say("three workers have started")
        await at_work.until(lambda: bool(at_work.events))
        await asyncio.sleep(KILL_S)  # the worker that was first is in the middle of its work
        story.killed = (at_work.events[0].worker, time.time())
        await at_work.workers[story.killed[0]].end(signal.SIGKILL)
        say(f"{story.killed[0]} is killed, with payments in hand")
        good = {number for number, kind in enumerate(PAYMENTS) if kind != "wrong"}
        await at_work.until(lambda: good <= at_work.handled())
        await dead_letters(bootstrap, PAYMENTS.count("wrong"))
        say("what is good is handled; the bank mends its list, and the dead letters are redriven")
        await asyncio.to_thread(mended.touch)
        story.redriven = time.time()
        async with Admin(bootstrap) as admin:
            await admin.redrive_dead_letters(GROUP)
        await at_work.until(lambda: len(at_work.handled()) == len(PAYMENTS))
    finally:
        for worker in at_work.workers.values():
            await worker.end()
    story.events = sorted(at_work.events, key=lambda event: event.at)


def say(text: str) -> None:
    """Tell a step at once."""
    print(text, flush=True)


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
        say(f"{len(PAYMENTS)} payments are sent, {PAYMENTS.count('later')} of them for later")
        await work(kafka.bootstrap, story, Path(folder) / "mended")
    report(story)
    draw(options.output, story)
    print(f"their ways: {options.output}")


if __name__ == "__main__":
    asyncio.run(main())
