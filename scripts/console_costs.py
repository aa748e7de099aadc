"""What the console costs: ``python scripts/console_costs.py [--groups 10000 | --drain]``.

A broker with so many share groups, each on a topic of 4 partitions; a console apart from it; one
viewer and 50 viewers, who watch all queues. Printed: how long the first screen takes, and how much
of a core broker and console take while they are watched. With --drain: how fast a share consumer
reads while nobody looks and while a viewer watches its queue, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.model.ids import TopicPartition
from tests.console.browser import browser, there_is_one
from tests.console.running import Console, console_process
from tests.servers import family
from tests.servers.process import ServerProcess
from tests.servers.sharegroup_server import SharegroupServer

TOPIC: Final = "jobs"
PARTITIONS: Final = 4
WIDE: Final = "wide"
AT_ONCE: Final = 50
WATCHED_S: Final = 20
DRAINED: Final = 3_000_000
ROUNDS: Final = 10
SCROLL: Final = """
return new Promise((done) => {
  const frames = []; let last = performance.now(); let step = 0;
  const next = (now) => {
    frames.push(now - last); last = now;
    scrollBy(0, 400);
    if (step++ < 100) requestAnimationFrame(next); else done(Math.max(...frames.slice(1)));
  };
  requestAnimationFrame(next);
})
"""


async def prepare(bootstrap: str, groups: int) -> None:
    """The topics, and the groups, which begin at the first record."""
    begin = {TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)}
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics(TOPIC, partitions=PARTITIONS)
        await admin.create_topics(WIDE, partitions=1_000)
        for number in range(1_000):
            await producer.send(TOPIC, str(number))
        for at in range(0, groups, AT_ONCE):
            await asyncio.gather(
                *(
                    admin.alter_share_group_offsets(f"queue-{number:05}", begin)
                    for number in range(at, min(groups, at + AT_ONCE))
                )
            )


@contextmanager
def viewers(page: Console, number: int) -> Iterator[None]:
    """So many event streams of all queues, whose readers keep up."""
    with ExitStack() as stack:
        for _ in range(number):
            events = stack.enter_context(page.events())
            next(events)
            threading.Thread(target=_read, args=(events,), daemon=True).start()
        yield


def _read(events: Iterator[object]) -> None:
    try:
        for _ in events:
            pass
    except (OSError, ValueError, AttributeError):  # the stream was closed
        return


def costs(name: str, broker: SharegroupServer, process: ServerProcess) -> None:
    """Print how much of a core broker and console take now."""
    before = broker.usage().cpu_seconds, process.usage().cpu_seconds
    threading.Event().wait(WATCHED_S)
    after = broker.usage().cpu_seconds, process.usage().cpu_seconds
    shares = [(now - then) / WATCHED_S for then, now in zip(before, after, strict=True)]
    print(f"{name}: broker {shares[0]:.2%}, console {shares[1]:.2%} of a core")


def first_screen(page: Console) -> None:
    """Print how long JSON and browser take, and the longest frame of a scroll."""
    for _ in range(2):
        began_s = time.monotonic()
        size = len(page.answer("/api/v1/queues")[2])
        print(f"/api/v1/queues: {size:,} bytes in {time.monotonic() - began_s:.2f} s")
    if not there_is_one():
        return
    with browser(1000, 800) as window:
        window.get(f"http://127.0.0.1:{page.port}/")
        while not window.execute_script(
            "return document.querySelectorAll('#queues tbody tr').length"
        ):
            threading.Event().wait(0.02)
        shown_ms = window.execute_script("return performance.now()")
        print(f"browser: rows are there after {shown_ms:.0f} ms")
        print(f"scroll: longest frame {window.execute_script(SCROLL):.0f} ms")
        window.get(f"http://127.0.0.1:{page.port}/?topic={WIDE}")
        while not window.execute_script(
            "return document.querySelectorAll('table tbody tr').length"
        ):
            threading.Event().wait(0.02)
        shown_ms = window.execute_script("return performance.now()")
        print(f"a topic of 1,000 partitions: {shown_ms:.0f} ms")


async def fill(bootstrap: str) -> None:
    """A topic of records to drain."""
    async with Admin(bootstrap) as admin, Producer(bootstrap, linger_ms=20) as producer:
        await admin.create_topics(TOPIC, partitions=PARTITIONS)
        for number in range(ROUNDS):
            for mode in ("watched", "alone"):
                settings = {"share.auto.offset.reset": "earliest"}
                await admin.alter_configs("group", f"{mode}-{number}", settings)
        for _ in range(DRAINED):
            await producer.enqueue(TOPIC, b"x" * 100)
        await producer.flush()


async def drain(bootstrap: str, group: str) -> float:
    """Records a second, of one consumer that reads all of them."""
    async with ShareConsumer(TOPIC, group_id=group, bootstrap_servers=bootstrap) as consumer:
        left = DRAINED
        while not (got := await consumer.poll()):
            continue
        left -= len(got)
        began_s = time.monotonic()
        while left:
            left -= len(await consumer.poll())
        return DRAINED / (time.monotonic() - began_s)


def drains(page: Console, bootstrap: str) -> None:
    """Print how fast a consumer is with and without a viewer."""
    ratios = []
    for number in range(ROUNDS):
        alone = asyncio.run(drain(bootstrap, f"alone-{number}"))
        with page.events(group=f"watched-{number}") as one, page.events() as every:
            for events in (one, every):
                next(events)
                threading.Thread(target=_read, args=(events,), daemon=True).start()
            watched = asyncio.run(drain(bootstrap, f"watched-{number}"))
        ratios.append(watched / alone)
        print(f"{alone:,.0f} records/s alone, {watched:,.0f} watched: {ratios[-1]:.3f}")
    print(f"median {statistics.median(ratios):.3f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--drain", action="store_true")
    wanted = parser.parse_args()
    family.begin()
    with tempfile.TemporaryDirectory() as name, SharegroupServer(Path(name)) as broker:
        made = fill(broker.bootstrap) if wanted.drain else prepare(broker.bootstrap, wanted.groups)
        asyncio.run(made)
        process, port = console_process(broker.bootstrap, Path(name))
        process.start()
        try:
            process.wait_until(lambda: "Ctrl-C ends it" in process.output(), timeout_s=60)
            page = Console(port)
            if wanted.drain:
                drains(page, broker.bootstrap)
                return
            first_screen(page)
            costs("nobody looks", broker, process)
            for number in (1, 50):
                with viewers(page, number):
                    costs(f"{number} viewers", broker, process)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
