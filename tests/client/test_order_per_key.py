"""Our own share consumers in a group with order per key."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from sharegroup.client import AckType, Admin, Producer, Record, ShareConsumer
from tests.client.working import WAIT_S, fresh, run
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

COUNT, KEYS = 3_000, 50


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Apache Kafka has no order in share groups."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with SharegroupServer(folder) as server:
        yield server


def zipf(draws: random.Random) -> list[str]:
    """Keys by Zipf's law with exponent 1."""
    limits = list(accumulate(1 / rank for rank in range(1, KEYS + 1)))
    return [str(bisect_left(limits, draws.random() * limits[-1])) for _ in range(COUNT)]


class Witness:
    """Notes when each record was last accepted: that accept is the one that counted."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.accepts: list[int] = []
        self.members: set[str] = set()

    def accepted(self, member: str, record: Record) -> None:
        self.members.add(member)
        self.accepts.append(int(record.value or b""))

    def check(self) -> None:
        last = {number: at for at, number in enumerate(self.accepts)}
        assert sorted(last) == list(range(COUNT)), "a record is lost"
        for key in set(self.keys):
            mine = [last[number] for number in range(COUNT) if self.keys[number] == key]
            assert mine == sorted(mine), f"key {key} is out of order"


async def lag(admin: Admin, group: str) -> int:
    offsets = await admin.list_share_group_offsets(group)
    return sum(COUNT if one.lag is None else one.lag for one in offsets.values())


async def work(
    consumer: ShareConsumer, name: str, witness: Witness, finished: Callable[[], Awaitable[bool]]
) -> None:
    """Accept all, but release one in thirty when it comes first, and what comes behind it of its
    key. Records that the broker has taken back may still come out of the consumer's buffer:
    accepting them has no effect."""
    async with asyncio.timeout(WAIT_S):
        while True:
            records = list(await consumer.poll(100))
            if not records and await finished():
                return
            released: set[bytes | None] = set()
            for record in records:
                first = record.delivery_count == 1
                if record.key in released or (first and record.offset % 30 == 7):
                    released.add(record.key)
                    consumer.acknowledge(record, AckType.RELEASE)
                else:
                    consumer.acknowledge(record, AckType.ACCEPT)
                    witness.accepted(name, record)
            await consumer.commit()


@pytest.mark.process
def test_keys_drawn_by_zipf_come_in_order(ours: RunningServer) -> None:
    async def scenario() -> None:
        draws = random.Random(7)
        topic, group = fresh("keys"), fresh("group")
        keys = zipf(draws)
        async with Admin(ours.bootstrap) as admin:
            await admin.create_topics(topic)
            await admin.alter_configs(
                "group",
                group,
                {
                    "share.auto.offset.reset": "earliest",
                    "share.ordering": "key",
                    "share.delivery.count.limit": "10",
                },
            )
        witness = Witness(keys)
        async with (
            Admin(ours.bootstrap) as admin,
            consumer_of(ours, topic, group) as one,
            consumer_of(ours, topic, group) as two,
        ):
            await asyncio.gather(one.poll(1_000), two.poll(1_000))  # both have joined
            async with Producer(ours.bootstrap) as producer:
                for number, key in enumerate(keys):
                    await producer.enqueue(topic, str(number), key=key)

            async def finished() -> bool:
                return await lag(admin, group) == 0

            await asyncio.gather(
                work(one, "one", witness, finished), work(two, "two", witness, finished)
            )
        witness.check()
        assert witness.members == {"one", "two"}

    run(scenario)


def consumer_of(broker: RunningServer, topic: str, group: str) -> ShareConsumer:
    return ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        max_poll_records=100,
        acquire_mode="record_limit",  # else the first may take all that there is
        acknowledgement_mode="explicit",
    )
