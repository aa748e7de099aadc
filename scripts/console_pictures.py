"""Writes the pictures of docs/console.md: `python scripts/console_pictures.py`.

Starts a broker, workers of which one hangs, and the console, and lets Debian's Chromium draw the
pages (apt-get install chromium chromium-driver).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from sharegroup import Admin, Producer, ShareConsumer  # noqa: E402
from tests.console.browser import browser, there_is_one  # noqa: E402
from tests.console.running import console  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

PICTURES = {
    "console-queues.png": ("/", 1100, 420),
    "console-queue.png": ("/?queue=resizers", 1100, 760),
}
DRAWN_S = 14
QUEUES = {
    "resizers": ("photos", 4, 2_000),
    "mailers": ("mails", 2, 60),
    "billing": ("orders", 2, 0),
}
"""Group → topic, partitions, records."""


async def prepare(bootstrap: str) -> None:
    """Topics, groups, records."""
    async with Admin(bootstrap) as admin, Producer(bootstrap, batch_size=600) as producer:
        await admin.create_topics(
            "dlq.photos", configs={"errors.deadletterqueue.group.enable": "true"}
        )
        for group, (topic, partitions, records) in QUEUES.items():
            await admin.create_topics(topic, partitions=partitions)
            await admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
            for number in range(records):
                await producer.enqueue(
                    topic, f'{{"number": {number}}}', partition=number % partitions
                )
        letters = {"errors.deadletterqueue.topic.name": "dlq.photos"}
        await admin.alter_configs("group", "resizers", letters)


async def work(bootstrap: str, group: str, *, hangs: bool) -> None:
    """A worker that fails now and then; one that hangs keeps what it has."""
    async with ShareConsumer(
        QUEUES[group][0],
        group_id=group,
        bootstrap_servers=bootstrap,
        acknowledgement_mode="explicit",
        acquire_mode="record_limit",
        max_poll_records=12,
    ) as consumer:
        while True:
            records = await consumer.poll()
            for at, record in enumerate(records):
                if hangs and at > 7:
                    await asyncio.Event().wait()
                elif record.offset % 11 == 3:
                    consumer.release(record, delay_ms=90_000)
                elif record.offset % 17 == 5:
                    consumer.reject(record, reason="no picture")
                elif record.offset % 7 != 2 or not hangs:
                    consumer.accept(record)
            await consumer.commit()
            await asyncio.sleep(0.4)


async def produce(bootstrap: str) -> None:
    """A few records a second."""
    async with Producer(bootstrap) as producer:
        for number in range(10_000):
            await producer.send("mails", f"mail {number}")
            await asyncio.sleep(0.2)


async def draw(bootstrap: str, port: int) -> None:
    """Let Chromium draw each page while the workers work."""
    await prepare(bootstrap)
    jobs = [
        work(bootstrap, "resizers", hangs=True),
        work(bootstrap, "resizers", hangs=False),
        work(bootstrap, "mailers", hangs=False),
        produce(bootstrap),
    ]
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*(asyncio.to_thread(picture, name, port) for name in PICTURES))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def picture(name: str, port: int) -> None:
    """Write one picture, when there are some points in the sparklines."""
    path, width, height = PICTURES[name]
    with browser(width, height) as opened:
        opened.get(f"http://127.0.0.1:{port}{path}")
        threading.Event().wait(DRAWN_S)
        (ROOT / "docs" / name).write_bytes(opened.get_screenshot_as_png())


def main() -> None:
    """Draw all pictures."""
    if not there_is_one():
        sys.exit("there is no Chromium: apt-get install chromium chromium-driver")
    family.begin()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        with SharegroupServer(data) as server, console(server.bootstrap, data) as running:
            asyncio.run(draw(server.bootstrap, running.port))
    for name in PICTURES:
        print(ROOT / "docs" / name)


if __name__ == "__main__":
    main()
