"""A partition of a cluster as the log of one owner, over our broker and over Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaStorageError
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.state_log import StateLog
from tests.servers import admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process
topics = count()
Node = Callable[..., StateLog]
Work = Callable[[Node], Awaitable[None]]


@pytest.fixture
def topic(cluster: RunningServer) -> str:
    name = f"state-{next(topics)}"
    admin.Admin(cluster.bootstrap).create_topic(name)
    return name


@asynccontextmanager
async def nodes(cluster: RunningServer, topic: str) -> AsyncIterator[Node]:
    """Makes one node's view of the partition, over connections of its own. ``name``: of the owners;
    the cluster fences those of one name alone."""
    clusters: list[Cluster] = []
    made: list[StateLog] = []

    def node(number: int, name: str = f"owner.{topic}") -> StateLog:
        client = Cluster(cluster.bootstrap)
        clusters.append(client)
        where = TopicPartition(topic, 0)
        me = (number, number.to_bytes(16, "big"))
        made.append(StateLog(client, where, name, me, lambda: 1_000))
        return made[-1]

    try:
        yield node
    finally:
        for one in made:
            await one.close()
        for client in clusters:
            await client.close()


def works(cluster: RunningServer, topic: str, work: Work) -> None:
    async def scenario() -> None:
        async with nodes(cluster, topic) as node:
            await asyncio.wait_for(work(node), 120)

    asyncio.run(scenario())


async def claimed(log: StateLog) -> list[bytes]:
    await log._cluster.start()
    return [key async for _, key, _ in log.claim()]


def test_what_is_confirmed_is_read_by_the_next_owner(cluster: RunningServer, topic: str) -> None:
    async def work(node: Node) -> None:
        one, other = node(1), node(2)
        assert await claimed(one) == []
        tickets = [one.submit([(b"%d" % n, b"v"), (b"%d+" % n, None)]) for n in range(100)]
        nothing = one.submit(())
        offsets = [await ticket.durable() for ticket in tickets]
        assert offsets == sorted(set(offsets))
        assert await nothing.durable() > offsets[-1]
        read = await claimed(other)
        assert read == [key for n in range(100) for key in (b"%d" % n, b"%d+" % n)]
        assert (one.term, other.term) == (1, 2)
        late = one.submit([(b"late", b"v")])
        with pytest.raises(KafkaStorageError):
            await late.durable()
        with pytest.raises(KafkaStorageError):
            one.submit([(b"later", b"v")])
        await other.submit([(b"next", b"v")]).durable()
        third = node(3)
        assert await claimed(third) == [*read, b"next"]
        assert third.term == 3

    works(cluster, topic, work)


def test_a_cluster_that_fences_nobody_does_no_harm(cluster: RunningServer, topic: str) -> None:
    """As one that does not look at the epochs of producers, or has forgotten them."""

    async def work(node: Node) -> None:
        one, other = node(1, f"one.{topic}"), node(2, f"other.{topic}")
        await claimed(one)
        await one.submit([(b"first", b"v")]).durable()
        assert await claimed(other) == [b"first"]
        late = one.submit([(b"late", b"v")])
        with pytest.raises(KafkaStorageError):
            await late.durable()
        await other.submit([(b"next", b"v")]).durable()
        third = node(3, f"third.{topic}")
        assert await claimed(third) == [b"first", b"next"]
        with pytest.raises(KafkaStorageError):
            await other.submit([(b"too late", b"v")]).durable()

    works(cluster, topic, work)


def test_many_owners_at_once_lose_nothing_that_was_confirmed(
    cluster: RunningServer, topic: str
) -> None:
    """Four nodes take the partition from one another, without a word."""

    async def work(node: Node) -> None:
        confirmed: list[bytes] = []
        numbers = count()

        async def live(number: int) -> None:
            for _ in range(8):
                log, before = node(number), [*confirmed]
                try:
                    seen = await claimed(log)
                except KafkaStorageError:
                    continue
                assert set(before) <= set(seen)
                for _ in range(5):
                    key = b"%d" % next(numbers)
                    try:
                        await log.submit([(key, b"v")]).durable()
                    except KafkaStorageError:
                        break
                    confirmed.append(key)

        await asyncio.gather(*(live(number) for number in range(4)))
        last = await claimed(node(9))
        assert confirmed
        assert set(confirmed) <= set(last)
        assert len(last) == len(set(last)), "a batch that is sent again is there once"

    works(cluster, topic, work)


def test_the_beginning_is_deleted_and_the_rest_counts(cluster: RunningServer, topic: str) -> None:
    async def work(node: Node) -> None:
        one, other = node(1), node(2)
        await claimed(one)
        for n in range(300):
            await one.submit([(b"%d" % n, b"v")]).durable()
        begin = await one.submit(()).durable()
        await one.submit([(b"kept", b"v")]).durable()
        start = await one.delete_before(begin)
        assert 0 < start <= begin
        read = await claimed(other)
        assert read[-1] == b"kept"
        assert len(read) < 301
        assert other.term == 2
        assert other.start == start

    works(cluster, topic, work)
