"""How the broker learns of the topics of a cluster that has many."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import Admin
from sharegroup.client.core.known_answer import KnownAnswer
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.store import TopicFacts
from sharegroup.upstream.pace import Pace
from sharegroup.upstream.topics import ClusterTopics
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process
SECONDS = 60


def test_an_answer_that_is_known_is_not_decoded(cluster: RunningServer) -> None:
    async def scenario() -> None:
        async with Admin(cluster.bootstrap) as admin, Cluster(cluster.bootstrap) as client:
            await admin.create_topics("known")
            known = KnownAnswer()

            async def names() -> set[str] | None:
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                answer = await client.send_to_any(METADATA, request, known)
                return None if answer is None else {one.name for one in answer.topics}

            while "known" not in (await names() or ()):
                continue  # Kafka's brokers hear of a topic later than whoever has made it
            assert await names(), "it was not taken in yet"
            known.keep()
            assert await names() is None
            await admin.create_topics("another")
            while (told := await names()) is None:
                continue
            assert {"known", "another"} <= told
            known.keep()
            known.forget()
            assert await names()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_a_topic_in_use_is_looked_at_though_all_topics_are_not(cluster: RunningServer) -> None:
    async def scenario() -> None:
        client = Cluster(cluster.bootstrap, allow_auto_create_topics=False)
        async with Admin(cluster.bootstrap) as admin, client:
            await admin.create_topics("used")
            pace = Pace(longest_s=1e9, rest=1e12)
            topics = ClusterTopics(client, lambda _name: False, pace=pace)
            news: asyncio.Queue[TopicFacts | None] = asyncio.Queue()
            topics.changed = lambda name: news.put_nowait(
                topics.facts.get(name) if name == "used" else None
            )
            while "used" not in topics.facts:
                await topics.look()
            await topics.open()
            pace.asked(0.0, 1.0)  # at all topics nobody looks again
            [log] = topics.logs_of("used")
            log.follow(lambda: True)  # it is in use from now on: somebody waits
            while not news.empty():
                news.get_nowait()
            await admin.create_topics("unused")
            await admin.create_partitions("used", 3)
            facts = await news.get()
            assert facts is not None
            assert facts.partitions == 3
            assert "unused" not in topics.facts
            await admin.delete_topics("used")
            assert await news.get() is None
            assert "used" not in topics.facts
            await topics.look()
            assert "unused" in topics.facts
            await topics.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


@pytest.mark.parametrize(("answer_s", "rest_s"), [(0.001, 0.5), (0.05, 1.0), (30.0, 2.0)])
def test_what_takes_long_is_asked_for_rarely(answer_s: float, rest_s: float) -> None:
    pace = Pace()
    assert pace.is_due(100.0)
    pace.asked(100.0, 100.0 + answer_s)
    assert not pace.is_due(100.0 + rest_s - 0.01)
    assert pace.is_due(100.0 + rest_s)
