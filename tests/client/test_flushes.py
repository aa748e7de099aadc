"""``flush()`` returns when all is durable, and raises if something is not: also beside a close,
another flush, or a caller that has given up. To a server whose answers the test decides."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup import sync
from sharegroup.client import IllegalState, Producer
from sharegroup.model.errors import MessageTooLarge, RequestTimedOut
from tests.client.producing_server import TOPIC, ProducingServer
from tests.client.test_producer_life import MESSAGE_TOO_LARGE, producing
from tests.client.working import run


def test_beside_a_close_it_waits_and_raises_as_well() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            server.may_answer.clear()
            producer = Producer(server.address)
            delivery = await producer.enqueue(TOPIC, b"x")
            await server.asked.wait()
            closing = asyncio.create_task(producer.close(0.2))
            await asyncio.sleep(0)
            with pytest.raises(RequestTimedOut):
                await producer.flush()
            assert delivery.done()
            await asyncio.wait([closing])
            closing.exception()

    run(scenario)


def test_two_at_a_time_both_raise() -> None:
    async def scenario() -> None:
        async with producing() as (server, producer):
            server.may_answer.clear()
            server.errors = [MESSAGE_TOO_LARGE]
            await producer.enqueue(TOPIC, b"x")
            flushes = [asyncio.create_task(producer.flush()) for _ in range(2)]
            await server.asked.wait()
            server.may_answer.set()
            found = await asyncio.gather(*flushes, return_exceptions=True)
            assert [type(one) for one in found] == [MessageTooLarge, MessageTooLarge]
            await producer.flush()

    run(scenario)


def test_who_waits_for_room_and_gives_up_does_not_hold_it() -> None:
    async def scenario() -> None:
        async with producing(buffer_memory=2_000) as (server, producer):
            server.may_answer.clear()
            producer.send(TOPIC, bytes(1_500))
            waiting = asyncio.create_task(producer.enqueue(TOPIC, bytes(1_000)))
            await server.asked.wait()
            flush = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            server.may_answer.set()
            await flush
            assert server.produced == 1

    run(scenario)


def test_a_blocking_producer_raises_what_never_got_into_the_buffer() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            await asyncio.to_thread(outside_of_a_transaction, server.address)

    run(scenario)


def outside_of_a_transaction(address: str) -> None:
    producer = sync.Producer(address, transactional_id="one")
    refused = producer.enqueue(TOPIC, b"x")
    with pytest.raises(IllegalState, match="transaction"):
        producer.flush()
    producer.flush()
    with pytest.raises(IllegalState, match="transaction"):
        refused.result()
    known = producer.enqueue(TOPIC, b"x")
    with pytest.raises(IllegalState):
        known.result()
    producer.close()  # whoever asked knows it


def test_what_is_done_is_known_after_a_close() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            server.errors = [0, MESSAGE_TOO_LARGE]
            await asyncio.to_thread(results_after_the_close, server.address)

    run(scenario)


def results_after_the_close(address: str) -> None:
    with sync.Producer(address) as producer:
        first = producer.enqueue(TOPIC, b"x")
        producer.flush()
        second = producer.enqueue(TOPIC, b"y")
        with pytest.raises(MessageTooLarge):
            producer.flush()
    assert (first.done(), first.result().topic) == (True, TOPIC)
    with pytest.raises(MessageTooLarge):
        second.result()
