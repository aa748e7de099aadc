"""``on_revoked`` of a consumer that is being closed: it is in time to commit, and nothing else
begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sharegroup import Consumer
from sharegroup.client.errors import IllegalState
from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Consumer as BlockingConsumer
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.client.working import fresh, run

Places = list[TopicPartition]
both = pytest.mark.parametrize("protocol", ["consumer", "classic"])


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBroker]:
    with local_broker() as broker:
        yield broker


def filled(local: LocalBroker) -> str:
    topic = fresh("read")
    local.create_topic(topic)
    local.produce(topic, ["0", "1", "2"])
    return topic


def settings(local: LocalBroker, group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "bootstrap_servers": local.bootstrap,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


async def read(consumer: Consumer) -> None:
    found = 0
    while found < 3:
        found += len(await consumer.poll())


async def committed(local: LocalBroker, topic: str, group: str) -> int | None:
    async with Consumer(**settings(local, group)) as other:
        [found] = (await other.committed((topic, 0))).values()
    return None if found is None else found.offset


@both
def test_on_revoked_may_commit(local: LocalBroker, protocol: str) -> None:
    async def scenario() -> None:
        topic, group = filled(local), fresh("group")
        consumer = Consumer(**settings(local, group), group_protocol=protocol)
        at = []

        async def revoked(wheres: Places) -> None:
            at.append(await consumer.position(*wheres[0]))
            consumer.seek(*wheres[0], 2)
            await consumer.commit()
            at.append((await consumer.committed())[wheres[0]].offset)

        consumer.subscribe(topic, on_revoked=revoked)
        async with consumer:
            await read(consumer)
        assert at == [3, 2]
        assert await committed(local, topic, group) == 2

    run(scenario)


def test_on_revoked_of_a_blocking_consumer_may_commit(local: LocalBroker) -> None:
    topic, group = filled(local), fresh("group")
    consumer: BlockingConsumer = BlockingConsumer(**settings(local, group))
    consumer.subscribe(topic, on_revoked=lambda _: consumer.commit())
    with consumer:
        found = 0
        while found < 3:
            found += len(consumer.poll())
    assert asyncio.run(committed(local, topic, group)) == 3


@pytest.mark.parametrize("inside", [False, True], ids=["beside it", "in the callback"])
def test_a_second_close_and_a_wakeup_do_not_disturb_the_commit(
    local: LocalBroker, inside: bool
) -> None:
    async def scenario() -> None:
        topic, group = filled(local), fresh("group")
        consumer = Consumer(**settings(local, group))
        revoked_at: list[Places] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def revoked(wheres: Places) -> None:
            revoked_at.append(wheres)
            begun.set()
            await go_on.wait()
            consumer.wakeup()
            if inside:
                await consumer.close()
            await consumer.commit()

        consumer.subscribe(topic, on_revoked=revoked)
        await read(consumer)
        consumer.wakeup()  # no wait is there that it could end
        closing = [asyncio.create_task(consumer.close())]
        await begun.wait()
        closing.append(asyncio.create_task(consumer.close()))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*closing)
        assert revoked_at == [[TopicPartition(topic, 0)]]
        assert await committed(local, topic, group) == 3

    run(scenario)


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.poll(0),
        lambda one: one.subscribe("another"),
        lambda one: one.assign([("another", 0)]),
        lambda one: one.unsubscribe(),
    ],
    ids=["poll", "subscribe", "assign", "unsubscribe"],
)
def test_nothing_new_begins_in_the_callback(
    local: LocalBroker, call: Callable[[Consumer], Any]
) -> None:
    async def scenario() -> None:
        topic = filled(local)
        consumer = Consumer(**settings(local, fresh("group")))

        async def revoked(_: Places) -> None:
            assert consumer.closed
            await call(consumer)

        consumer.subscribe(topic, on_revoked=revoked)
        await read(consumer)
        with pytest.raises(IllegalState, match="the consumer is closed"):
            await consumer.close()

    run(scenario)


def test_when_the_partitions_are_given_up_all_is_refused(local: LocalBroker) -> None:
    async def scenario() -> None:
        topic = filled(local)
        consumer = Consumer(topic, **settings(local, fresh("group")))
        await read(consumer)
        await consumer.close()
        for call in (consumer.commit, consumer.committed, consumer.start, consumer.poll):
            with pytest.raises(IllegalState, match="the consumer is closed"):
                await call()
        with pytest.raises(IllegalState, match="the consumer is closed"):
            consumer.seek(topic, 0, 0)

    run(scenario)


def test_who_waits_for_a_position_is_told_of_the_close(local: LocalBroker) -> None:
    """Before its time-out, which is longer than this test may take."""

    async def scenario() -> None:
        topic = filled(local)
        consumer = Consumer(**settings(local, fresh("group")), request_timeout_ms=1_000_000)
        consumer.assign([(topic, 7)])
        await consumer.start()
        waiting = asyncio.create_task(consumer.position(topic, 7))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(IllegalState, match="the consumer is closed"):
            await waiting

    run(scenario)
