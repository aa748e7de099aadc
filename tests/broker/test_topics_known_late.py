"""A broker that loads groups before it knows all topics, as one that takes over from the broker
that has made a topic in the cluster a moment ago."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker import server
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer, ShareConsumer
from sharegroup.model.store import Store, TopicFacts
from tests.broker.running import run
from tests.client.working import numbers

TOPIC = "jobs"
COUNT = 10


class StoreBehind:
    """A store that shows the topic only when somebody has looked so often: each look asks one
    broker of the cluster. That the topic is not gone, the other ones know."""

    def __init__(self, inner: Store, looks: int) -> None:
        self._inner = inner
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        known = self._inner.topics
        return {n: one for n, one in known.items() if n != TOPIC or not self._looks}

    async def look_for(self, topic: str | None) -> None:
        if self._looks:
            self._looks -= 1
            self._inner.on_topic_changed(TOPIC)


async def accept(address: str, count: int) -> list[int]:
    async with ShareConsumer(TOPIC, group_id="g", bootstrap_servers=address) as consumer:
        got = []
        async for record in consumer:
            got.append(record)
            if len(got) == count:
                assert set((await consumer.commit()).values()) == {None}
                return numbers(got)
    raise AssertionError("the loop has ended")


async def produce(address: str, first: int) -> None:
    async with Producer(address) as producer:
        for number in range(first, first + COUNT):
            await producer.enqueue(TOPIC, b"%d" % number)


@pytest.mark.parametrize("looks", [1, 2])
def test_groups_forget_no_topic_that_is_only_not_known_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    async def before(_broker: Broker, port: int) -> None:
        address = f"127.0.0.1:{port}"
        async with Admin(address) as admin:
            await admin.create_topics(TOPIC, partitions=1)
            await admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
        await produce(address, 0)
        assert await accept(address, COUNT) == list(range(COUNT))

    async def after(broker: Broker, port: int) -> None:
        address = f"127.0.0.1:{port}"
        await broker.parts.topics.look()  # in vain, if the groups are loaded and have looked
        await produce(address, COUNT)
        assert await accept(address, COUNT) == list(range(COUNT, 2 * COUNT))

    run(tmp_path, before)
    opening = server.open_local_store

    async def open_behind(*args: object, **settings: object) -> Any:
        return StoreBehind(await opening(*args, **settings), looks)

    monkeypatch.setattr(server, "open_local_store", open_behind)
    run(tmp_path, after)
