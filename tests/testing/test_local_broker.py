"""The broker that users' tests get: its life, its clock, what it shows of a group."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sharegroup.client import Producer
from sharegroup.model.errors import ConfigError, InvalidTopic, SharegroupError, TopicAlreadyExists
from sharegroup.sync import ShareConsumer
from sharegroup.testing import BrokerNotRunning, LocalBroker, WaitedTooLong, broker

GROUP = "workers"
HOUR_S = 3600.0


@pytest.fixture(params=["memory", "folder"])
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalBroker]:
    with broker(
        topics={"jobs": 1}, data=tmp_path if request.param == "folder" else None
    ) as running:
        running.configure_group(GROUP, share_auto_offset_reset="earliest")
        yield running


def worker(kafka: LocalBroker) -> ShareConsumer:
    return ShareConsumer(
        "jobs",
        group_id=GROUP,
        bootstrap_servers=kafka.bootstrap,
        acknowledgement_mode="explicit",
    )


def test_a_broker_leaves_no_thread() -> None:
    with broker():  # the modules are loaded now
        before = set(threading.enumerate())
    for _ in range(5):
        with broker() as kafka:
            kafka.create_topic("jobs")
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()


def test_a_lock_runs_out_before_advance_returns(kafka: LocalBroker) -> None:
    kafka.produce("jobs", ["a", "b"])
    with worker(kafka) as one:
        held = one.poll(timeout_ms=120_000)
        assert len(held) == 2
        member = next(iter(kafka.group(GROUP).members))
        range_ = kafka.group(GROUP)["jobs", 0].at(1)
        assert range_ is not None
        assert (range_.state, range_.delivery_count, range_.member_id) == ("ACQUIRED", 1, member)

        kafka.advance(seconds=29)
        assert kafka.group(GROUP).in_flight == 2
        kafka.advance(seconds=2)
        partition = kafka.group(GROUP)["jobs", 0]
        assert (partition.in_flight, partition.available, partition.lag) == (0, 2, 2)
        with worker(kafka) as other:
            again = other.poll(timeout_ms=120_000)
    assert [record.delivery_count for record in again] == [2, 2]


def test_what_expired_is_durable_before_advance_returns(kafka: LocalBroker) -> None:
    kafka.configure_group(GROUP, share_delivery_count_limit=2)
    kafka.produce("jobs", ["poison"])
    with worker(kafka) as one, worker(kafka) as other:
        for each in (one, other):
            assert each.poll(timeout_ms=120_000)
            kafka.advance(seconds=31)
        kafka.kill()
        kafka.start()
        assert kafka.group(GROUP)["jobs", 0].start_offset == 1, "given up, and that is durable"


def test_a_session_ends_and_the_wall_clock_moves_with_it(kafka: LocalBroker) -> None:
    with worker(kafka) as one:
        assert not one.poll(timeout_ms=0)
        kafka.wait_until(lambda: kafka.group(GROUP).members, timeout_s=120)
        before_ms = kafka.now_ms
        kafka.advance(seconds=46)
        assert kafka.group(GROUP).state == "Empty"
        assert 45_990 <= kafka.now_ms - before_ms < 60_000


def test_retention_runs_while_time_advances() -> None:
    with broker() as kafka:
        kafka.create_topic("short", retention_ms=60_000, segment_ms=30_000)
        kafka.produce("short", ["old"])
        kafka.advance(seconds=40)
        kafka.produce("short", ["newer"])
        kafka.advance(seconds=HOUR_S)
        assert b"old" not in kafka.values("short")


def test_restart_keeps_the_port_the_data_and_the_clock(kafka: LocalBroker) -> None:
    kafka.produce("jobs", ["a", ("key", "b"), b"c", None])
    kafka.advance(seconds=HOUR_S)
    address, then_ms = kafka.bootstrap, kafka.now_ms
    kafka.restart()
    assert kafka.bootstrap == address
    assert kafka.now_ms >= then_ms
    assert kafka.values("jobs") == [b"a", b"b", b"c", None]
    assert kafka.group("nobody").state == "Dead"


def test_a_kill_releases_nothing_and_loses_nothing_that_was_answered(kafka: LocalBroker) -> None:
    kafka.produce("jobs", ["a", "b", "c"])
    with worker(kafka) as one:
        first, *_ = one.poll(timeout_ms=120_000)
        one.reject(first)
        one.commit()
        kafka.kill()
        kafka.start()
        partition = kafka.group(GROUP)["jobs", 0]
        assert (partition.start_offset, partition.in_flight, partition.lag) == (1, 0, 2)
        assert kafka.values("jobs") == [b"a", b"b", b"c"]


def test_a_kill_while_records_come_loses_nothing_that_was_confirmed(kafka: LocalBroker) -> None:
    async def scenario() -> None:
        confirmed: list[bytes] = []
        async with Producer(kafka.bootstrap) as producer:

            async def send(first: int) -> None:
                for number in itertools.count(first, 1_000):
                    await producer.send("jobs", str(number))
                    confirmed.append(str(number).encode())
                    if len(confirmed) == 50:
                        going.set()

            for _ in range(3):
                going = asyncio.Event()
                confirmed.clear()
                sending = [asyncio.create_task(send(first)) for first in range(8)]
                await going.wait()
                await asyncio.to_thread(kafka.kill)
                for one in sending:
                    one.cancel()
                await asyncio.wait(sending)
                await asyncio.to_thread(kafka.start)
                assert set(confirmed) <= set(kafka.values("jobs"))

    asyncio.run(scenario())


def test_in_memory_a_kill_loses_unsynced_records() -> None:
    with broker(topics={"jobs": 1}, configs={"flush.policy": "system"}) as kafka:
        kafka.produce("jobs", ["written, not synced"])
        kafka.kill()
        kafka.start()
        assert kafka.values("jobs") == []


def test_several_lives_in_one_folder(tmp_path: Path) -> None:
    for number in range(3):
        with broker(data=tmp_path) as kafka:
            if number == 0:
                kafka.create_topic("jobs")
            kafka.produce("jobs", [f"{number}"])
            kafka.kill()
    with broker(data=tmp_path) as kafka:
        assert kafka.values("jobs") == [b"0", b"1", b"2"]


def test_topics_that_a_folder_has_already_are_taken_as_they_are(tmp_path: Path) -> None:
    for number in range(2):
        with broker(data=tmp_path, topics={"jobs": 2, f"only-{number}": 1}) as kafka:
            kafka.produce("jobs", [f"{number}"], partition=0)
    with broker(data=tmp_path) as kafka:
        assert kafka.values("jobs") == [b"0", b"1"]
        assert kafka.values("only-1") == []


@pytest.mark.parametrize(
    ("topics", "error", "sentence"),
    [
        ({"jobs": 2}, ConfigError, "jobs has 1 partitions in the folder, topics says 2"),
        ({"more": 1, "no topic": 1}, InvalidTopic, "no topic"),
    ],
)
def test_a_start_that_fails_leaves_no_broker(
    tmp_path: Path, topics: dict[str, int], error: type[SharegroupError], sentence: str
) -> None:
    with broker(data=tmp_path, topics={"jobs": 1}) as kafka:
        port = int(kafka.bootstrap.rpartition(":")[2])
    before = set(threading.enumerate())
    refused = broker(data=tmp_path, topics=topics, port=port)
    for _ in range(2):
        with pytest.raises(error, match=sentence):
            refused.start()
        assert not refused.running
    with pytest.raises(error, match=sentence), refused:
        raise AssertionError("it starts")
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()
    with broker(data=tmp_path, topics={"jobs": 1}, port=port) as kafka:
        kafka.produce("jobs", ["a"])


def test_two_brokers_are_independent() -> None:
    with broker(topics={"jobs": 1}) as one, broker(topics={"jobs": 1}) as two:
        assert one.bootstrap != two.bootstrap
        one.produce("jobs", ["a"])
        one.advance(seconds=HOUR_S)
        assert two.values("jobs") == []
        assert one.now_ms - two.now_ms > 3_000_000


def test_async_with_from_a_running_loop() -> None:
    async def scenario() -> None:
        async with broker(topics={"jobs": 2}) as kafka:
            kafka.produce("jobs", ["a"], partition=1)
            assert kafka.values("jobs") == [b"a"]

    asyncio.run(scenario())


@pytest.mark.parametrize("times", [1, 3])
def test_a_start_that_is_cancelled_leaves_nothing(times: int, tmp_path: Path) -> None:
    """A thread starts the broker, and cannot be interrupted."""
    with broker():  # the modules are loaded now
        before = set(threading.enumerate())
    kafka = broker(topics={"jobs": 2}, data=tmp_path)

    async def user() -> None:
        async with kafka:
            raise AssertionError("it has begun")

    async def scenario() -> None:
        using = asyncio.ensure_future(user())
        for _ in range(times):
            await asyncio.sleep(0)
            using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert not kafka.running
        with broker(data=tmp_path) as other:  # nobody has the folder
            assert other.values("jobs") == []

    asyncio.run(scenario())
    assert not kafka.running
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()


def test_a_stop_that_is_cancelled_is_done(tmp_path: Path) -> None:
    """Also where all threads for such work are busy: then it had not begun."""
    kafka = broker(topics={"jobs": 1}, data=tmp_path)
    begun, go_on = threading.Barrier(2), threading.Event()

    def busy() -> None:
        begun.wait()
        go_on.wait()

    async def user(entered: asyncio.Event, leave: asyncio.Event) -> None:
        async with kafka:
            kafka.produce("jobs", ["a"])
            entered.set()
            await leave.wait()

    async def scenario() -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        using = asyncio.ensure_future(user(entered, leave))
        await entered.wait()
        occupied = loop.run_in_executor(None, busy)
        begun.wait()
        leave.set()
        await asyncio.sleep(0)
        using.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await using
        await occupied
        assert not kafka.running
        with broker(data=tmp_path) as other:
            assert other.values("jobs") == [b"a"]

    asyncio.run(scenario())


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    kafka = broker()
    with pytest.raises(BrokerNotRunning, match="with broker"):
        _ = kafka.bootstrap
    with pytest.raises(BrokerNotRunning, match=r"start\(\)"):
        kafka.group(GROUP)
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        broker(configs={"num.partitions": "many"})
    names: Any = ["jobs"]
    with pytest.raises(TypeError, match=r"such as \{'jobs': 1\}"):
        broker(topics=names)
    with broker(data=tmp_path, topics={"jobs": 1}) as kafka:
        one: Any
        for one in ("job", b"job"):  # it would be one record for each letter
            with pytest.raises(TypeError, match=r"write a list, \[b?'job'\]"):
                kafka.produce("jobs", one)
        assert kafka.values("jobs") == []
        with pytest.raises(TopicAlreadyExists):
            kafka.create_topic("jobs")
        with pytest.raises(ValueError, match="forward"):
            kafka.advance(seconds=-1)
        with pytest.raises(WaitedTooLong, match=r"0\.01 s"):
            kafka.wait_until(lambda: kafka.group(GROUP).members, timeout_s=0.01)
        with pytest.raises(ConfigError, match="in use by another"), broker(data=tmp_path):
            raise AssertionError("a folder has one broker")


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = broker(port=other.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            taken.start()
        assert not taken.running


def test_a_killed_broker_logs_no_errors(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.produce("jobs", ["a"])
    with worker(kafka) as one, caplog.at_level(logging.WARNING, logger="sharegroup.broker"):
        one.poll(timeout_ms=120_000)
        kafka.kill()
        said = [record.message for record in caplog.records]
        kafka.start()
    assert said == []
