"""A group begins with another group's state of every record."""

from __future__ import annotations

import logging

import pytest

from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.model.errors import GroupIdNotFound, InvalidRequest, NonEmptyGroup
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.test_expiry import GROUP, TOPIC, consumer_of, polled, prepare, run_with

FORK = "fork"


def consumer_of_fork(kafka: LocalBroker) -> ShareConsumer:
    return ShareConsumer(
        TOPIC,
        group_id=FORK,
        bootstrap_servers=kafka.bootstrap,
        acknowledgement_mode="explicit",
        fetch_max_wait_ms=50,
    )


async def produce(kafka: LocalBroker, *values: str) -> None:
    async with Producer(kafka.bootstrap) as producer:
        for one in values:
            await producer.enqueue(TOPIC, one)


def values(records: list[Record]) -> list[bytes | None]:
    return [one.value for one in records]


@pytest.mark.parametrize("kills", [False, True])
def test_it_begins_with_the_state_of_each_record(kills: bool) -> None:
    """Finished, given up, held, at rest with its delivery count, and not seen yet."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka, *map(str, range(5)))
        async with consumer_of(kafka.bootstrap) as consumer, Admin(kafka.bootstrap) as admin:
            records = await polled(consumer, 5)
            consumer.accept(records[1])
            consumer.reject(records[2])
            consumer.release(records[3], delay_ms=60_000)
            await consumer.commit()
            assert await admin.fork_share_group(GROUP, FORK) == [TopicPartition(TOPIC, 0)]
            # From now on the groups know nothing of each other.
            consumer.accept(records[0], records[4])
            await consumer.commit()
        await produce(kafka, "5")
        if kills:
            kafka.kill()
            kafka.start()
        async with consumer_of_fork(kafka) as consumer:
            found = await polled(consumer, 3)
            assert values(found) == [b"0", b"4", b"5"]
            assert {one.delivery_count for one in found} == {1}
            consumer.accept(*found)
            await consumer.commit()
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(61)
            (rested,) = await polled(consumer, 1)
            assert (rested.value, rested.delivery_count) == (b"3", 2)
            consumer.accept(rested)
            await consumer.commit()
        assert kafka.group(FORK)[TOPIC, 0].start_offset == 6
        assert kafka.group(GROUP)[TOPIC, 0].start_offset == 3

    run_with(broker(), scenario)


def test_a_group_that_has_not_begun_begins_before_it_is_forked() -> None:
    """The fork's own setting is to begin at the end: it would miss what the first one gets."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka, "0", "1")
        async with Admin(kafka.bootstrap) as admin:
            await admin.alter_share_group_offsets(GROUP, {TopicPartition(TOPIC, 0): -1})
            await admin.fork_share_group(GROUP, FORK)
        async with consumer_of_fork(kafka) as consumer:
            assert values(await polled(consumer, 2)) == [b"0", b"1"]

    run_with(broker(), scenario)


def test_what_the_new_group_had_is_dropped() -> None:
    """Also what a leader has in memory."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka, "0", "1")
        async with Admin(kafka.bootstrap) as admin:
            await admin.alter_configs("group", FORK, {"share.auto.offset.reset": "earliest"})
            async with consumer_of_fork(kafka) as consumer:
                consumer.accept(*await polled(consumer, 2))
            async with consumer_of(kafka.bootstrap) as consumer:
                consumer.accept((await polled(consumer, 2))[0])
                await consumer.commit()
                await admin.fork_share_group(GROUP, FORK)
        async with consumer_of_fork(kafka) as consumer:
            assert values(await polled(consumer, 1)) == [b"1"]

    run_with(broker(), scenario)


def test_it_is_refused_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sharegroup.authorizer")

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka, "0")
        async with Admin(kafka.bootstrap) as admin:
            with pytest.raises(GroupIdNotFound):
                await admin.fork_share_group(GROUP, FORK)
            async with consumer_of(kafka.bootstrap) as consumer:
                await polled(consumer, 1)
                with pytest.raises(InvalidRequest):
                    await admin.fork_share_group(GROUP, GROUP)
                async with consumer_of_fork(kafka) as other:
                    await other.poll(timeout_ms=50)
                    with pytest.raises(NonEmptyGroup):
                        await admin.fork_share_group(GROUP, FORK)
            assert "forked a group" not in caplog.text
            await admin.fork_share_group(GROUP, FORK)
        assert f"has forked a group: {GROUP} as {FORK}" in caplog.text

    run_with(broker(), scenario)
