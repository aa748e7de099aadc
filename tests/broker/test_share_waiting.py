"""How long a ShareFetch waits, and what ends the wait: bytes, an acknowledgement, the end of a
session, an error, a connection that is gone.
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    RELEASE,
    Session,
    acquired,
    codes,
    connect,
    produce,
    started,
    until,
)


def test_a_dropped_connection_makes_room_for_another_session(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port, records=10)
        two = Session(await connect(port), one.topic_id, "m-2")
        three = Session(await connect(port), one.topic_id, "m-3")
        assert acquired(await one.fetch(0)) == {0: [(0, 9, 1)]}
        assert acquired(await two.fetch(0)) == {}
        refused = await three.fetch(0)
        assert refused.error_code == errors.ShareSessionLimitReached.code
        assert refused.acquisition_lock_timeout_ms == 0
        waiting = asyncio.ensure_future(two.fetch(max_wait_ms=20_000))
        one.connection.close()
        assert acquired(await waiting) == {0: [(0, 9, 2)]}
        assert codes(await three.fetch(0, epoch=0)) == {0: 0}

    run(
        tmp_path,
        scenario,
        "group.share.max.share.sessions=2",
        "group.share.max.size=2",
    )


def test_session_limit_errors_are_delayed(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port)
        await one.fetch(0)
        two = Session(await connect(port), one.topic_id, "m-2")
        loop = asyncio.get_running_loop()
        before = loop.time()
        refused = await two.fetch(0, max_wait_ms=300)
        assert refused.error_code == errors.ShareSessionLimitReached.code
        assert loop.time() - before >= 0.3

    run(tmp_path, scenario, "group.share.max.share.sessions=1", "group.share.max.size=1")


def test_a_fetch_waits_for_enough_bytes(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        await session.fetch(0, 1)
        waiting = asyncio.ensure_future(session.fetch(min_bytes=5000, max_wait_ms=20_000))
        await produce(port, session.topic_id, 0, 1, size=3000)
        await produce(port, session.topic_id, 1, 1, size=3000)
        assert acquired(await waiting) == {0: [(0, 0, 1)], 1: [(0, 0, 1)]}
        await produce(port, session.topic_id, 0, 1, size=3000)
        late = await session.fetch(min_bytes=5000, max_wait_ms=200)
        assert acquired(late) == {0: [(1, 1, 1)]}

    run(tmp_path, scenario)


@pytest.mark.parametrize("nothing", [{"max_records": 0}, {"max_bytes": 0}])
def test_asking_for_nothing_is_answered_at_once(tmp_path: Path, nothing: dict[str, int]) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0, max_wait_ms=100_000, **nothing)) == {}
        assert acquired(await session.fetch()) == {0: [(0, 9, 1)]}

    run(tmp_path, scenario)


def test_an_error_already_sent_does_not_end_a_wait(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        unknown = {7: errors.UnknownTopicOrPartition.code}
        first = await session.fetch(0, 7, max_wait_ms=20_000)
        assert codes(first) == {0: 0, **unknown}
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=20_000))
        await produce(port, session.topic_id, 0, 10)
        second = await waiting
        assert codes(second) == {0: 0, **unknown}
        assert acquired(second) == {0: [(0, 9, 1)]}

    run(tmp_path, scenario)


async def woken_by(broker: Broker, one: Session, two: Session, partition: int) -> bool:
    """Whether a fetch of ``two`` that waits for ``partition`` looks again when ``one`` gives
    partition 0 back."""
    waiting = asyncio.ensure_future(two.fetch(partition, max_wait_ms=300))
    assert codes(await one.acknowledge({0: [(0, 9, [RELEASE])]})) == {0: 0}
    return acquired(await waiting) == {0: [(0, 9, 2)]}


@pytest.mark.parametrize("partition", [0, 1])
def test_an_acknowledgement_ends_the_wait_for_its_partition_only(
    tmp_path: Path, partition: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port, records=10)
        assert acquired(await one.fetch(0)) == {0: [(0, 9, 1)]}
        two = Session(await connect(port), one.topic_id, "m-2")
        assert acquired(await two.fetch()) == {}
        assert await woken_by(broker, one, two, partition) == (partition == 0)

    run(tmp_path, scenario)


@pytest.mark.parametrize("partition", [0, 1])
def test_the_end_of_a_session_ends_the_wait_for_its_partitions_only(
    tmp_path: Path, partition: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port, records=10)
        assert acquired(await one.fetch(0)) == {0: [(0, 9, 1)]}
        two = Session(await connect(port), one.topic_id, "m-2")
        assert acquired(await two.fetch()) == {}
        waiting = asyncio.ensure_future(two.fetch(partition, max_wait_ms=300))
        assert codes(await one.fetch(epoch=-1)) == {}
        expected = {0: [(0, 9, 2)]} if partition == 0 else {}
        assert acquired(await waiting) == expected

    run(tmp_path, scenario)


@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
def test_closing_ends_the_sessions_own_waiting_fetch(tmp_path: Path, api: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        await session.fetch(0)
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=3_600_000))
        elsewhere = Session(await connect(port), session.topic_id)
        await until(lambda: len(broker.parts.waiters) == 1)
        if api == "fetch":
            assert codes(await elsewhere.fetch(epoch=-1)) == {}
        else:
            assert codes(await elsewhere.acknowledge({}, epoch=-1)) == {}
        assert acquired(await waiting) == {}

    run(tmp_path, scenario)


@pytest.mark.parametrize("limit", [1, 10], ids=["refused", "waits"])
def test_a_dropped_connection_ends_its_fetches(tmp_path: Path, limit: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port)
        await one.fetch(0)
        two = Session(await connect(port), one.topic_id, "m-2")
        waiting = asyncio.ensure_future(two.fetch(0, max_wait_ms=2**31 - 1))
        await until(lambda: len(broker.parts.waiters) == 1)
        two.connection.close()
        with pytest.raises(errors.NetworkException):
            await waiting
        await until(lambda: len(broker.parts.waiters) == 0)

    run(
        tmp_path,
        scenario,
        f"group.share.max.share.sessions={limit}",
        f"group.share.max.size={limit}",
    )


MEMBERS = 30
AN_HOUR_MS = 3_600_000


async def in_line(port: int, topic_id: UUID, member: str) -> Session:
    """A session whose connection serves one fetch that waits."""
    return Session(await connect(port), topic_id, member)


def asked(broker: Broker) -> int:
    """How many of the waiting fetches have looked since they began to wait."""
    waiting = {one for of in broker.parts.waiters._by_connection.values() for one in of}
    return sum(bool(one.offered) for one in waiting)


def test_one_record_wakes_one_of_many_members(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        first = await started(broker, port)
        waiting = set()
        for number in range(MEMBERS):
            session = await in_line(port, first.topic_id, f"m-{number}")
            waiting.add(asyncio.ensure_future(session.fetch(0, 1, max_wait_ms=AN_HOUR_MS)))
        await until(lambda: len(broker.parts.waiters) == MEMBERS)
        for number in range(MEMBERS):
            await produce(port, first.topic_id, number % 2, 1)
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            (answer,) = done
            assert acquired(answer.result()) == {number % 2: [(number // 2, number // 2, 1)]}
            assert asked(broker) == 0

    run(tmp_path, scenario)


def test_an_offer_that_meets_a_fetch_lock_is_made_again_by_its_holder(tmp_path: Path) -> None:
    """Else a request that takes some records leaves the others to members that wait for ever."""

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0, max_records=1, batch_size=1, share_acquire_mode=1))
        (led,) = broker.parts.share_partitions.all()
        assert broker.parts.share_partitions.may_take_now(led)
        led.fetching = True
        assert not broker.parts.share_partitions.may_take_now(led)
        assert led.passed_by
        led.fetching = False

    run(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(5))
def test_every_record_finds_a_member_while_others_leave(tmp_path: Path, seed: int) -> None:
    """Records in bursts, one for each fetch, and members that give theirs back by leaving: nobody
    waits to the end while there is a record."""

    async def scenario(broker: Broker, port: int) -> None:
        random = Random(seed)
        first = await started(broker, port, share_delivery_count_limit="10")
        sessions: dict[asyncio.Task[Any], Session] = {}
        limits = {"max_wait_ms": AN_HOUR_MS, "max_records": 1, "batch_size": 1}
        numbers = count()

        async def join() -> None:
            session = await in_line(port, first.topic_id, f"m-{next(numbers)}")
            waiting = session.fetch(0, 1, share_acquire_mode=1, **limits)
            sessions[asyncio.ensure_future(waiting)] = session

        for _ in range(MEMBERS):
            await join()
        left = 200
        accepted = 0
        while accepted < 200:
            if left:
                burst = random.randint(1, min(left, 10))
                await produce(port, first.topic_id, random.randrange(2), *[1] * burst)
                left -= burst
            done, _ = await asyncio.wait(sessions, return_when=asyncio.FIRST_COMPLETED)
            for answer in done:
                session = sessions.pop(answer)
                ((number, ((begin, end, _),)),) = acquired(answer.result()).items()
                if random.random() < 0.2:
                    session.connection.close()
                    await join()
                    continue
                accepted += 1
                acks = {number: [(begin, end, [ACCEPT])]}
                again = session.fetch(acks=acks, share_acquire_mode=1, **limits)
                sessions[asyncio.ensure_future(again)] = session
            if random.random() < 0.3:  # one that waits leaves, perhaps when it was just asked
                waiting = random.choice(list(sessions))
                sessions.pop(waiting).connection.close()
                await asyncio.gather(waiting, return_exceptions=True)  # or it had a record already
                await join()
        for session in sessions.values():
            session.connection.close()
        await asyncio.gather(*sessions, return_exceptions=True)

    run(tmp_path, scenario)
