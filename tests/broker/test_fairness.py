"""Tenants take turns (``share.fairness=key``) over real sockets, spoken by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.delivery import looking_ahead
from sharegroup.broker.delivery.looking_ahead import STEP_BYTES
from sharegroup.broker.delivery.share_fetching import READ_BYTES_UNKNOWN
from sharegroup.broker.handlers.share.share_fetch import RECORD_LIMIT
from sharegroup.broker.server import Broker
from sharegroup.client.admin.admin import Admin
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import WEIGHTS_MAX
from sharegroup.wire.batch import TRANSACTIONAL, encode_batch
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    RELEASE,
    TOPIC,
    acquired,
    new_group,
    new_topic,
    parts,
    until,
)
from tests.broker.test_order_per_key import (
    INVALID_CONFIG,
    Member,
    alter,
    append,
    core_of,
    local_log,
    offsets,
)

LARGE = 4_096
AT_ONCE = READ_BYTES_UNKNOWN // LARGE


async def fair(broker: Broker, port: int, *keys: str, **configs: str) -> tuple[Member, Member]:
    """Records with these keys, and two members of a group whose keys take turns."""
    topic_id = await new_topic(broker, port, partitions=1)
    await new_group(broker, port, share_fairness="key", **configs)
    await append(broker, *keys)
    a, b = [await Member.join(port, topic_id, name) for name in "ab"]
    return a, b


async def append_large(broker: Broker, key: str, batches: int) -> None:
    """Batches with 16 large records of one key."""
    log = local_log(broker)
    for _ in range(batches):
        records = [(key.encode(), bytes(LARGE))] * 16
        appended = log.append_trusted(encode_batch(records, timestamp_ms=0))
    await log.wait_durable(appended.last_offset + 1)


def test_keys_share_what_a_member_asks_for(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await fair(broker, port, "xxxxxxxx", "yyz")
        answer = await a.session.fetch(0, max_records=6, share_acquire_mode=RECORD_LIMIT)
        assert acquired(answer) == {0: [(0, 2, 1), (8, 10, 1)]}
        assert not parts(answer)[0].ordered
        assert await b.fetch() == [(3, 7, 1)]
        assert await b.answer(3, 7, ACCEPT) == 0
        assert await a.answer(8, 10, ACCEPT) == 0
        assert core_of(broker).start_offset == 0
        assert await a.answer(0, 2, ACCEPT) == 0
        assert core_of(broker).start_offset == 11

    run(tmp_path, scenario)


def test_parts_of_keys_and_records_without_a_key(tmp_path: Path) -> None:
    """The part before the separator takes the turn; all records without a key take one together."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, partitions=1)
        await new_group(broker, port, share_fairness="key", share_fairness_key_separator="/")
        keys = [b"x/1", b"x/2", b"x/3", b"x", None, None, None, b"y/1"]
        log = local_log(broker)
        batch = encode_batch([(key, b"v") for key in keys], timestamp_ms=0)
        await log.wait_durable(log.append_trusted(batch).last_offset + 1)
        a = await Member.join(port, topic_id, "a")
        assert await a.fetch(3) == [(0, 0, 1), (4, 4, 1), (7, 7, 1)]
        assert await alter(port, share_fairness_key_separator="") == 0
        assert await a.fetch(6) == [(0, 4, 1), (7, 7, 1)], "all are taken back, and all differ"

    run(tmp_path, scenario)


def test_weights_name_keys(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        weights = "x=3,y=0.5," + ",".join(f"{n}=100" for n in range(WEIGHTS_MAX - 2))
        a, _ = await fair(broker, port, "x" * 20, "y" * 20, share_fairness_weights=weights)
        assert await a.fetch(7) == [(0, 5, 1), (20, 20, 1)]
        assert await alter(port, share_fairness_weights="y=2") == 0
        assert await a.fetch(3) == [(6, 6, 1), (21, 22, 1)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("at_once", [0, STEP_BYTES, looking_ahead.AT_ONCE_BYTES])
def test_a_key_far_behind_is_found_and_delivered_next(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far behind what the first fetch reads: by a task, or before the fetch delivers."""
    monkeypatch.setattr(looking_ahead, "AT_ONCE_BYTES", at_once)

    async def scenario(broker: Broker, port: int) -> None:
        a, b = await fair(broker, port)
        large = 4 * AT_ONCE
        assert large * LARGE > READ_BYTES_UNKNOWN + 4 * STEP_BYTES
        await append_large(broker, "x", large // 16)
        await append(broker, "yyy")
        assert await a.fetch(5) == [(0, 4, 1)]
        await until(lambda: core_of(broker).order.loaded_end == large + 3)
        assert await b.fetch(5) == [(large, large + 2, 1)]
        assert await a.fetch(5) == [(5, 9, 1)]
        await append(broker, "z")
        if not at_once:
            assert await a.fetch(5) == [(10, 14, 1)]
            await until(lambda: core_of(broker).order.loaded_end == large + 4)
        assert await b.fetch(5) == [(large + 3, large + 3, 1)]

    run(tmp_path, scenario)


def test_what_comes_back_keeps_its_key_over_a_restart(tmp_path: Path) -> None:
    async def before(broker: Broker, port: int) -> None:
        a, _ = await fair(broker, port, "xxxxyy")
        assert await a.fetch(4) == [(0, 1, 1), (4, 5, 1)]
        assert await a.answer(0, 0, RELEASE) == 0
        assert await a.answer(4, 4, ACCEPT) == 0

    async def after(broker: Broker, port: int) -> None:
        found = broker.parts.topics.find(TOPIC)
        assert found is not None
        a = await Member.join(port, found.topic_id, "a")
        assert await a.fetch(2) == [(0, 0, 2), (5, 5, 2)]
        assert await a.fetch() == [(1, 1, 2), (2, 3, 1)]
        assert await a.answer(0, 3, ACCEPT) == 0
        await a.leave()
        assert core_of(broker).start_offset == 5
        b = await Member.join(port, found.topic_id, "b")
        assert await b.fetch() == [(5, 5, 3)]

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_fetch_waits_for_a_key_at_its_limit(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await fair(broker, port, "xxxy", share_fairness_max_in_flight="2")
        assert await a.fetch() == [(0, 1, 1), (3, 3, 1)]
        assert await b.fetch() == []
        waiting = asyncio.ensure_future(b.fetch(wait_ms=30_000))
        await until(lambda: len(broker.parts.waiters) == 1)
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await waiting == [(2, 2, 1)]
        await append(broker, "xxz")
        assert await b.fetch() == [(6, 6, 1)]
        assert await alter(port, share_fairness_max_in_flight="3") == 0
        assert await b.fetch() == [(4, 4, 1)]

    run(tmp_path, scenario)


def test_aborted_records_and_markers_hold_nothing_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await fair(broker, port, "x", share_isolation_level="read_committed")
        log = local_log(broker)
        for producer_id, kind in ((1, MarkerType.ABORT), (2, MarkerType.COMMIT)):
            batch = encode_batch(
                [(b"y", b"v")] * 2,
                timestamp_ms=0,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            )
            log.append_trusted(batch)
            marker = encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp_ms=0)
            await log.wait_durable(log.append_trusted(marker).last_offset + 1)
        await append(broker, "x")
        assert offsets(await a.fetch()) == [0, 4, 5, 7]
        for at in (0, 4, 5, 7):
            assert await a.answer(at, at, ACCEPT) == 0
        assert core_of(broker).start_offset == 8

    run(tmp_path, scenario)


def test_a_change_takes_back_what_is_in_flight(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await fair(broker, port, "xxxy")
        assert await a.fetch(2) == [(0, 0, 1), (3, 3, 1)]
        assert await alter(port, share_fairness="none") == 0
        assert await b.fetch() == [(0, 3, 1)]
        assert not core_of(broker).order.needs_keys
        assert await alter(port, share_fairness="key") == 0
        assert await b.fetch(2) == [(0, 0, 1), (3, 3, 1)]

    run(tmp_path, scenario)


def test_an_operator_decides_about_records_of_a_fair_group(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await fair(broker, port, "xxxyy", share_fairness_max_in_flight="1")
        at = TopicPartition(TOPIC, 0)
        assert await a.fetch() == [(0, 0, 1), (3, 3, 1)]
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.release_records(GROUP, at, 0, 0)
            assert await b.fetch() == [(0, 0, 2)]
            await admin.accept_records(GROUP, at, 0, 1)
        assert await b.fetch() == [(2, 2, 1)]
        assert core_of(broker).start_offset == 2

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share_fairness": "keys"},
        {"share_fairness_max_in_flight": "-1"},
        {"share_fairness_max_in_flight": "10001"},
        {"share_fairness_key_separator": "::"},
        {"share_fairness_key_separator": "ü"},
        {"share_fairness_weights": "x"},
        {"share_fairness_weights": "x=0.001"},
        {"share_fairness_weights": "x=100.01"},
        {"share_fairness_weights": "x=inf"},
        {"share_fairness_weights": "x=nan"},
        {"share_fairness_weights": "x=1,x=2"},
        {"share_fairness_weights": ",".join(f"{n}=1" for n in range(WEIGHTS_MAX + 1))},
        {"share_fairness": "key", "share_ordering": "key"},
    ],
)
def test_values_that_are_refused(wrong: dict[str, str], tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        assert await alter(port, **wrong) == INVALID_CONFIG
        assert await alter(port, share_fairness_max_in_flight="10000") == 0

    run(tmp_path, scenario)
