"""A worker alone in its group, and a broker that comes and goes: no handler runs in vain."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from sharegroup.client import Record, ShareConsumer
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.worker_jobs import jobs, member, until, work, worker_metrics
from tests.client.working import run

COUNT = 120
SLOTS = 6
OUTAGES = 4


def handled(consumer: ShareConsumer, count: int) -> bool:
    return worker_metrics(consumer).get("handled-total", 0) >= count


async def outages(kafka: LocalBroker, consumer: ShareConsumer, how: str, seed: int) -> None:
    """Kill or restart the broker, each time when some more records were handled."""
    chance = random.Random(seed)
    for number in range(OUTAGES):
        goal = COUNT * (number + 1) // (OUTAGES + 2)
        await until(partial(handled, consumer, goal))
        await asyncio.to_thread(kafka.kill if how == "kill" else kafka.stop)
        if chance.random() < 0.5:
            await until(lambda: worker_metrics(consumer)["in-flight"] == 0)
        await asyncio.to_thread(kafka.start)


# A client that the broker's loop was just accepting when it ended leaves an open socket there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["kill", "restart"])
@pytest.mark.parametrize("ordering", ["none", "key"])
def test_each_record_is_handled_once_or_in_order(how: str, ordering: str, tmp_path: Path) -> None:
    chance = random.Random(7)

    async def scenario(kafka: LocalBroker) -> None:
        topic, group = jobs(kafka, 0, share_ordering=ordering, share_delivery_count_limit=10)
        kafka.produce(topic, [(f"k{at % 10}", str(at)) for at in range(COUNT)])
        consumer = member(kafka, topic, group)
        calls: Counter[int] = Counter()
        order: dict[bytes, list[int]] = {}

        async def handler(record: Record) -> None:
            number = int(record.value or b"")
            calls[number] += 1
            order.setdefault(record.key or b"", []).append(number)
            await asyncio.sleep(chance.random() * 0.02)

        going = asyncio.create_task(outages(kafka, consumer, how, 3))
        await work(
            consumer,
            handler,
            # An answer may have arrived although it was not confirmed: then its result is kept.
            lambda m: (
                going.done()
                and m["handled-total"] >= COUNT
                and kafka.group(group)[topic, 0].start_offset == COUNT
            ),
            concurrency=SLOTS,
            cancel_when_lost=False,
        )
        await going
        assert set(calls) == set(range(COUNT))
        if ordering == "none":
            assert max(calls.values()) == 1
        else:
            # A result is dropped if an earlier one of its key was such an answer: then the key is
            # handled again from there on.
            for each in order.values():
                first, last = list(dict.fromkeys(each)), list(dict.fromkeys(reversed(each)))
                assert (first, last) == (sorted(first), sorted(last, reverse=True)), each

    with broker(data=tmp_path) as kafka:
        run(lambda: scenario(kafka))
