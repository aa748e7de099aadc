"""What a producer says of records that do not get through, and how it ends: over a real socket, to
a server whose answers the test decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import BufferExhausted, Delivery, IllegalState, Producer
from sharegroup.client.producer.outgoing import outgoing_record
from sharegroup.model.errors import (
    MessageTooLarge,
    RequestTimedOut,
    SharegroupError,
    UnknownTopicOrPartition,
)
from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from tests.client.producing_server import TOPIC, ProducingServer
from tests.client.working import eventually, run

MESSAGE_TOO_LARGE, NOT_LEADER = 10, 6
STEPS_MAX = 40  # turns of the loop; a close that is not cancelled takes fewer


@asynccontextmanager
async def producing(**settings: Any) -> AsyncIterator[tuple[ProducingServer, Producer]]:
    async with ProducingServer() as server:
        producer = Producer(server.address, **settings)
        try:
            yield server, producer
        finally:
            server.may_answer.set()
            await producer.close()


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# --- send -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"request_timeout_ms": 10**400}, OverflowError),  # while the topic is looked up
        ({"request_timeout_ms": 2**40}, None),  # in the request
        ({"clock_ms": lambda: 1e12}, TypeError),  # while the record enters its batch
    ],
)
def test_an_error_that_nobody_expects_is_the_records_outcome(
    settings: dict[str, Any], cause: type[Exception] | None
) -> None:
    """It ended the task that would have sent the record, which then had no outcome for ever."""

    async def scenario() -> None:
        async with producing(**settings) as (_, producer):
            for _ in range(2):
                with pytest.raises(SharegroupError) as failed:
                    await producer.send(TOPIC, b"job")
                if cause is not None:
                    assert isinstance(failed.value.__cause__, cause)
                    assert cause.__name__ in str(failed.value)

    run(scenario)


def test_awaiting_send_waits_for_the_broker_to_confirm() -> None:
    async def scenario() -> None:
        async with producing() as (server, producer):
            server.may_answer.clear()
            sending = asyncio.ensure_future(producer.send(TOPIC, b"dead"))
            queued = await producer.enqueue(TOPIC, b"queued")
            await server.asked.wait()
            assert not sending.done()
            assert not queued.done()
            server.may_answer.set()
            assert (await sending).topic == TOPIC
            assert (await queued).topic == TOPIC
            assert queued.done()

    run(scenario)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((TOPIC, 3), {}, "value is 3 (int): a record's value is bytes, str or None"),
        ((TOPIC, {"a": 1}), {}, "value is {'a': 1} (dict)"),
        ((TOPIC,), {"key": 7}, "key is 7 (int)"),
        ((3, b""), {}, "topic is 3 (int)"),
        ((b"jobs", b""), {}, "topic is b'jobs' (bytes)"),
        (("",), {}, "topic is empty"),
        (("größe",), {}, "ASCII"),
        ((TOPIC,), {"headers": {}}, "headers is a dict: write a list of pairs"),
        ((TOPIC,), {"headers": {"a": b"1"}}, "list(headers.items())"),
        ((TOPIC,), {"headers": "a"}, "headers is 'a' (str)"),
        ((TOPIC,), {"headers": [("a", "1")]}, "the header 'a' is '1' (str)"),
        ((TOPIC,), {"headers": [(1, b"1")]}, "1 (int) is the name of a header"),
        ((TOPIC,), {"headers": [b"ab"]}, "b'ab' (bytes) is among the headers"),
        ((TOPIC,), {"partition": "0"}, "partition is '0' (str)"),
        ((TOPIC,), {"timestamp_ms": 1.5}, "timestamp_ms is 1.5 (float)"),
        ((TOPIC,), {"timestamp_ms": -1}, "timestamp_ms is -1"),
        ((TOPIC,), {"expires_at": -1}, "expires_at is -1: write milliseconds since 1970"),
        ((TOPIC,), {"expires_at": 10**18}, "expires_at is 1000000000000000000"),
        ((TOPIC,), {"deliver_at": -1}, "deliver_at is -1: write milliseconds since 1970"),
        ((TOPIC,), {"deliver_at": "10m"}, "deliver_at is '10m' (str): write a datetime"),
        ((TOPIC,), {"deliver_at": 7, "expires_at": 7}, "would be worthless when it is delivered"),
        ((TOPIC,), {"expires_at": "10m"}, "expires_at is '10m' (str): write a datetime"),
        ((TOPIC,), {"expires_at": datetime(2030, 1, 1)}, "write its time zone"),  # noqa: DTZ001
    ],
)
def test_an_invalid_record_raises_at_the_call(
    arguments: tuple[Any, ...], settings: dict[str, Any], message: str
) -> None:
    async def scenario() -> None:
        producer = Producer()  # it is not connected: nothing needs to be known to say it
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            producer.send(*arguments, **settings)
        await producer.close()

    run(scenario)
    blocking = sync.Producer()
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        blocking.send(*arguments, **settings)
    blocking.close()


def test_text_and_all_bytes_types_are_accepted() -> None:
    async def scenario() -> None:
        async with producing() as (_, producer):
            for value in ("text", b"bytes", bytearray(b"x"), memoryview(b"x"), None):
                await producer.send(TOPIC, value, headers=[("h", value and b"h")])  # type: ignore[arg-type]

    run(scenario)


def test_a_record_says_in_its_header_when_it_is_worthless() -> None:
    at = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    for given, text in ((at, b"1893452400000"), (0, b"0"), (10**18 - 1, b"9" * 18)):
        plain = outgoing_record(TOPIC, b"x", None, [("a", b"1")], None, None)
        record = outgoing_record(TOPIC, b"x", None, [("a", b"1")], None, None, expires_at=given)
        assert record.headers == [("a", b"1"), (EXPIRES_AT, text)]
        both = outgoing_record(TOPIC, b"x", None, (), None, None, "7", given)
        assert both.headers == [("sharegroup.message.id", b"7"), (EXPIRES_AT, text)]
        assert record.size >= plain.size + len(EXPIRES_AT) + len(text)
        later = outgoing_record(TOPIC, b"x", None, (), None, None, deliver_at=given)
        assert later.headers == [(DELIVER_AT, text)]
    all_three = outgoing_record(TOPIC, b"x", None, (), None, None, "7", 9, 8)
    names = ["sharegroup.message.id", EXPIRES_AT, DELIVER_AT]
    assert [name for name, _ in all_three.headers] == names


def test_without_an_event_loop_the_error_names_the_blocking_client() -> None:
    producer = Producer()
    with pytest.raises(IllegalState, match=r"sharegroup\.sync\.Producer"):
        producer.send(TOPIC, b"x")


def test_a_record_larger_than_a_request_raises_at_the_call() -> None:
    async def scenario() -> None:
        async with producing(max_request_size=1_000) as (_, producer):
            with pytest.raises(MessageTooLarge, match="1000"):
                producer.send(TOPIC, bytes(1_000))

    run(scenario)


# --- the buffer -----------------------------------------------------------------------------------


def test_a_full_buffer_takes_one_more_record_of_each_task() -> None:
    async def scenario() -> None:
        async with producing(buffer_memory=2_000) as (server, producer):
            server.may_answer.clear()
            kept = [producer.send(TOPIC, bytes(1_000)), producer.send(TOPIC, bytes(1_000))]
            with pytest.raises(BufferExhausted, match=r"await producer\.enqueue"):
                producer.send(TOPIC, bytes(1_000))
            more = [asyncio.ensure_future(one(producer)) for _ in range(5)]
            queued = [asyncio.ensure_future(producer.enqueue(TOPIC, bytes(1_000))) for _ in "ab"]
            await server.asked.wait()
            assert producer._buffer.size <= 2_000
            assert not any(task.done() for task in (*more, *queued))
            server.may_answer.set()
            await asyncio.gather(*kept, *more)
            for task in queued:
                await (await task)

    run(scenario)


async def one(producer: Producer) -> None:
    await producer.send(TOPIC, bytes(1_000))


def test_a_buffer_that_stays_full_is_an_error() -> None:
    async def scenario() -> None:
        async with producing(buffer_memory=2_000, max_block_ms=50) as (server, producer):
            server.may_answer.clear()
            await producer.enqueue(TOPIC, bytes(1_000))
            with pytest.raises(BufferExhausted, match=r"no room for 1024 more in 0\.05 s"):
                await producer.send(TOPIC, bytes(1_000))
            with pytest.raises(BufferExhausted):
                await producer.enqueue(TOPIC, bytes(1_000))

    run(scenario)


def test_a_full_buffer_ends_the_linger() -> None:
    async def scenario() -> None:
        async with producing(buffer_memory=2_000, linger_ms=3_600_000) as (_, producer):
            await producer.enqueue(TOPIC, bytes(1_000))
            await producer.enqueue(TOPIC, bytes(1_000))

    run(scenario)


def test_a_cancelled_enqueue_stops_waiting() -> None:
    async def scenario() -> None:
        async with producing(buffer_memory=2_000) as (server, producer):
            server.may_answer.clear()
            producer.send(TOPIC, bytes(1_000))
            waiting = asyncio.ensure_future(producer.enqueue(TOPIC, bytes(1_000)))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            server.may_answer.set()
            await producer.flush()
            assert producer._buffer.size == 0
            assert server.produced == 1

    run(scenario)


# --- failures -------------------------------------------------------------------------------------


def test_unawaited_errors_are_logged_once_and_raised_by_flush(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with producing(batch_size=100) as (server, producer):
            server.errors = [MESSAGE_TOO_LARGE] * 10
            for _ in range(10):
                producer.send(TOPIC, bytes(100))
            with pytest.raises(MessageTooLarge) as failed:
                await producer.flush()
            assert failed.value.__notes__ == [
                "this is the first of the records that nobody awaited and that failed: 10"
            ]
            await producer.flush()

    run(scenario)
    assert len(messages(caplog)) == 1
    assert messages(caplog)[0].startswith("a record for jobs-0 was not delivered")


def test_awaited_errors_are_not_raised_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with producing() as (server, producer):
            server.errors = [MESSAGE_TOO_LARGE] * 4  # of all three, and of each alone
            deliveries = [producer.send(TOPIC, b"x") for _ in range(3)]
            for delivery in deliveries:
                with pytest.raises(MessageTooLarge):
                    await delivery
            with pytest.raises(MessageTooLarge):
                await deliveries[0]
            await producer.flush()

    run(scenario)
    assert messages(caplog) == []


def test_a_cancelled_await_leaves_the_error_to_flush() -> None:
    async def scenario() -> None:
        async with producing() as (server, producer):
            server.may_answer.clear()
            server.errors = [MESSAGE_TOO_LARGE]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send(TOPIC, b"x"), 0.01)
            server.may_answer.set()
            with pytest.raises(MessageTooLarge):
                await producer.flush()

    run(scenario)


def test_close_raises_unawaited_errors() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            server.errors = [MESSAGE_TOO_LARGE]
            producer = Producer(server.address)
            producer.send(TOPIC, b"x")
            with pytest.raises(MessageTooLarge):
                await producer.close()
            with pytest.raises(IllegalState, match="closed"):
                producer.send(TOPIC, b"x")

    run(scenario)


def test_an_unknown_topic_is_logged_soon_and_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with producing(max_block_ms=500) as (_, producer):
            deliveries = [producer.send("jbos", b"x") for _ in range(3)]
            for delivery in deliveries:
                with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'jbos'"):
                    await delivery
            with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'jbos'"):
                await producer.enqueue("jbos", b"x")
            await producer.send(TOPIC, b"x")

    run(scenario)
    assert len(messages(caplog)) == 2  # the fourth record asked again


def test_an_outage_and_its_end_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with producing() as (server, producer):
            server.errors = [NOT_LEADER] * 4
            await producer.send(TOPIC, b"x")

    run(scenario)
    began, ended = messages(caplog)
    assert began.startswith("retrying to send records for jobs-0")
    assert ended == "records for jobs-0 and all other partitions are accepted again"


# --- the end --------------------------------------------------------------------------------------


def test_close_ends_at_its_timeout_and_reports_unsent_records() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            server.may_answer.clear()
            producer = Producer(server.address, buffer_memory=2_000)
            deliveries = [producer.send(TOPIC, bytes(1_000)), producer.send(TOPIC, bytes(1_000))]
            with pytest.raises(RequestTimedOut, match=r"timeout_s=0\.05"):
                await producer.close(timeout_s=0.05)
            for delivery in deliveries:
                with pytest.raises(RequestTimedOut):
                    await delivery
            await producer.close()

    run(scenario)


async def sockets() -> int:
    await asyncio.sleep(0)
    links = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith("socket:") for link in links)


def of_client(task: asyncio.Task[Any]) -> bool:
    return "ScriptedServer" not in repr(task.get_coro())


async def end_cancelled(server: ProducingServer, steps: int, *, connected: bool) -> list[Delivery]:
    """Cancel a close after so many turns of the loop, and again at every turn after it."""
    producer = Producer(server.address)
    deliveries = []
    if connected:
        await producer.start()
    deliveries = [producer.send(TOPIC, b"x"), producer.send("nope", b"x")]
    closing = asyncio.ensure_future(producer.close())
    for _ in range(steps):
        await asyncio.sleep(0)
    while not closing.done():
        closing.cancel()
        await asyncio.sleep(0)
    return deliveries


@pytest.mark.parametrize("connected", [True, False])
def test_a_close_cancelled_at_any_step_leaves_nothing_open(connected: bool) -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            server.may_answer.clear()
            others = asyncio.all_tasks()
            for steps in range(1, STEPS_MAX):
                before = await sockets()
                for delivery in await end_cancelled(server, steps, connected=connected):
                    with pytest.raises(RequestTimedOut):
                        await delivery
                server.drop_connections()
                assert {t for t in asyncio.all_tasks() - others if of_client(t)} == set()
                # The server's own end closes a turn later.
                await eventually(sockets, lambda count, before=before: count <= before)
            server.may_answer.set()

    run(scenario)


def test_a_producer_that_is_not_closed_warns() -> None:
    async def scenario() -> None:
        async with ProducingServer() as server:
            producer = Producer(server.address)
            await producer.send(TOPIC, b"x")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(scenario)
        gc.collect()
    texts = [str(one.message) for one in caught if one.category is ResourceWarning]
    assert any("async with Producer(...)" in text for text in texts), texts
