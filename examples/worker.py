"""A worker to begin with: it resizes images, as far as this example goes.

    sharegroup serve &
    python examples/worker.py

It makes its topics, puts a few jobs in, and works until SIGTERM or Ctrl-C. ``--seconds 3`` ends it
by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import logging

from sharegroup import Admin, Producer, Record, ShareConsumer
from sharegroup.client import Backoff, Reject
from sharegroup.model.errors import TopicAlreadyExists

JOBS = ["cat.jpg", "dog.jpg", "bird.jpg", "notes.txt", "flaky.jpg"]


async def prepare(server: str) -> None:
    """The topic, and a job for each name."""
    async with Admin(server) as admin, Producer(server) as producer:
        try:
            await admin.create_topics("resize", partitions=4)
        except TopicAlreadyExists:
            print("the topic is there already", flush=True)
        for name in JOBS:
            await producer.send("resize", name)


async def resize(job: Record) -> None:
    """Handle one job."""
    name = (job.value or b"").decode()
    if not name.endswith(".jpg"):
        raise Reject(f"{name} is no image")  # a dead letter at once: trying again would not help
    if name.startswith("flaky") and job.delivery_count == 1:
        raise OSError("the disk is busy")  # comes again after a pause
    await asyncio.sleep(0.1)  # the work
    print(f"{name} resized, delivery {job.delivery_count}", flush=True)


async def main() -> None:
    """Prepare, and work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="127.0.0.1:9092")
    parser.add_argument("--seconds", type=float, help="end after so long")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    await prepare(options.server)
    consumer = ShareConsumer(
        "resize",
        group_id="resizers",
        bootstrap_servers=options.server,
        auto_offset_reset="earliest",
    )
    if options.seconds is not None:
        asyncio.get_running_loop().call_later(options.seconds, consumer.stop)
    await consumer.run(
        resize,
        concurrency=20,
        retry=Backoff(first_s=0.5, max_s=30),
        dead_letter="resize-dead",
        create_dead_letter=True,
        drain_s=20,
    )


if __name__ == "__main__":
    asyncio.run(main())
