"""A paused group: fetches wait, acknowledgements work, for stock clients too, over restarts."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sharegroup.client import Admin, Producer
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.test_back_off import GROUP, TOPIC, consumer_of, polled, prepared, run_with


async def produce(kafka: LocalBroker, value: str) -> None:
    async with Producer(kafka.bootstrap) as producer:
        await producer.send(TOPIC, value)


def test_nothing_is_delivered_and_what_is_held_can_be_answered() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=2) as consumer, Admin(kafka.bootstrap) as admin:
            held = await polled(consumer, 2)
            await admin.pause_group(GROUP)
            await produce(kafka, "later")
            consumer.accept(held[0])
            consumer.release(held[1])
            assert set((await consumer.commit()).values()) == {None}
            assert kafka.group(GROUP)[TOPIC, 0].start_offset == 1
            assert not await consumer.poll(timeout_ms=200), "neither the released one nor the new"
            kafka.advance(3_600)
            assert not await consumer.poll(timeout_ms=200)
            await admin.resume_group(GROUP)
            found = await polled(consumer, 2)
            assert [one.value for one in found] == [b"1", b"later"]
            consumer.accept(*found)

    run_with(broker(), scenario)


def test_a_fetch_that_waits_goes_on_when_the_group_is_resumed() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=1) as consumer, Admin(kafka.bootstrap) as admin:
            (first,) = await polled(consumer, 1)
            consumer.accept(first)
            await consumer.commit()
            await admin.pause_group(GROUP)
            waiting = asyncio.ensure_future(polled(consumer, 1))
            await produce(kafka, "later")
            assert not waiting.done()
            await admin.resume_group(GROUP)
            (later,) = await waiting
            assert later.value == b"later"
            consumer.accept(later)

    run_with(broker(), scenario)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_it_stays_paused_over_a_restart(how: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=1), Admin(kafka.bootstrap) as admin:
            await admin.begin_group_at(GROUP, "earliest")
            async with consumer_of(kafka) as consumer:
                consumer.release(*await polled(consumer, 1))
                await consumer.commit()
            await admin.pause_group(GROUP)
        kafka.kill() if how == "kill" else kafka.stop()
        kafka.start()
        async with consumer_of(kafka) as consumer, Admin(kafka.bootstrap) as admin:
            assert not await consumer.poll(timeout_ms=200)
            await admin.resume_group(GROUP)
            (again,) = await polled(consumer, 1)
            assert (again.value, again.delivery_count) == (b"0", 2)
            consumer.accept(again)

    run_with(broker(), scenario)


def test_who_paused_it_is_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=1) as consumer, Admin(kafka.bootstrap) as admin:
            consumer.accept(*await polled(consumer, 1))
            with caplog.at_level(logging.INFO, "sharegroup.authorizer"):
                await admin.pause_group(GROUP)
                await admin.pause_group(GROUP)
                await admin.resume_group(GROUP)
            told = [one.getMessage() for one in caplog.records if "group workers" in one.message]
            assert told == [
                "User:ANONYMOUS from 127.0.0.1 has paused: group workers",
                "User:ANONYMOUS from 127.0.0.1 has resumed: group workers",
            ]
            with pytest.raises(GroupIdNotFound):
                await admin.pause_group("nobody")

    run_with(broker(), scenario)
