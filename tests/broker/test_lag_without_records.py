"""A share group has no lag where no record is left to deliver: behind commit markers, deleted and
compacted records, with a member that waits and without any."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.batch import encode_batch, parse_headers
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.share_wire import ACCEPT, GROUP, TOPIC, Session, codes, connect, new_group, until
from tests.broker.test_cleaning import COMPACTED, KEY_BYTES, log_of, produce, topic
from tests.broker.transaction_wire import TransactionalProducer, close_all

FIRST = TopicPartition(TOPIC, 0)
LABELS = {"group": GROUP, "topic": TOPIC, "partition": "0"}
TOMBSTONES = 43
AGES = ("oldest_unacknowledged_seconds", "lag_seconds")


async def lags(broker: Broker, port: int) -> tuple[int | None, float | None]:
    """As an operator's tools and the metrics say it; nothing is old where there is no lag."""
    async with Admin(f"127.0.0.1:{port}") as admin:
        told = (await admin.list_share_group_offsets(GROUP))[FIRST].lag
    samples = await scraped(MetricsReader(broker.parts))
    measured = value(samples, "sharegroup_share_partition_lag_records", LABELS)
    for age in AGES:
        found = value(samples, f"sharegroup_share_partition_{age}", LABELS)
        assert found is not None
        assert (found > 0) == bool(told), (age, found)
    return told, measured


async def one_finished(broker: Broker, port: int, topic_id: UUID, **configs: str) -> Session:
    """A record that the group has finished, and its member, which goes on."""
    written = encode_batch([(b"k", b"v")], timestamp_ms=1_700_000_000_000)
    assert await produce(port, topic_id, written) == [0]
    await new_group(broker, port, **configs)
    session = Session(await connect(port), topic_id)
    await session.fetch(0)
    assert codes(await session.acknowledge({0: [(0, 0, [ACCEPT])]})) == {0: 0}
    return session


async def compacted_away(broker: Broker, port: int, topic_id: UUID) -> None:
    """Tombstones up to the end of the log, of which a cleaning leaves an empty batch."""
    records = [(b"%d" % n, None) for n in range(TOMBSTONES)]
    batches = [encode_batch([one], timestamp_ms=1_700_000_000_000) for one in records]
    assert set(await produce(port, topic_id, *batches)) == {0}
    log = log_of(broker)
    log._roll()
    await until(lambda: all(segment.durable for segment in log.cleaning.segments))
    for _ in range(2):  # the first sets the time at which tombstones go
        log.cleaning.first_dirty = 0
        assert await broker.parts.store.clean(broker.parts.clock.wall_ms() + 1000, KEY_BYTES)
    left = parse_headers((await log.read(1, 1 << 20)).data)
    assert not sum(header.record_count for header in left)


def unloaded(broker: Broker) -> None:
    for led in list(broker.parts.share_partitions.all()):
        broker.parts.share_partitions.fence(led, "as after a restart, before a member comes")


@pytest.mark.parametrize("loaded", [True, False])
def test_behind_compacted_records(loaded: bool, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED, **{"delete.retention.ms": "0"})
        await one_finished(broker, port, topic_id)
        await compacted_away(broker, port, topic_id)
        if not loaded:
            unloaded(broker)
        assert await lags(broker, port) == (0, 0)

        written = encode_batch([(b"k", b"w")], timestamp_ms=1_700_000_000_000)
        assert await produce(port, topic_id, written) == [0]
        assert await lags(broker, port) == (TOMBSTONES + 1, TOMBSTONES + 1)

    run(tmp_path, scenario)


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_member_passes_over_compacted_records(ordering: str, tmp_path: Path) -> None:
    """The start offset follows, though there is no record behind them (issue 27)."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED, **{"delete.retention.ms": "0"})
        session = await one_finished(broker, port, topic_id, share_ordering=ordering)
        await compacted_away(broker, port, topic_id)
        assert not (await session.fetch(0)).responses
        [led] = broker.parts.share_partitions.all()
        assert led.core.start_offset == TOMBSTONES + 1
        led.core.check_invariants()
        assert await lags(broker, port) == (0, 0)

    run(tmp_path, scenario)


@pytest.mark.parametrize("loaded", [True, False])
def test_behind_a_commit_marker(loaded: bool, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port)
        session = await one_finished(broker, port, topic_id)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"in it"}) == [0]
        assert await lags(broker, port) == (1, 1)
        await session.fetch()
        assert codes(await session.acknowledge({0: [(1, 1, [ACCEPT])]})) == {0: 0}
        assert await producer.end(commit=True) == 0
        await until(lambda: log_of(broker).high_watermark == 3)
        if not loaded:
            unloaded(broker)
        assert await lags(broker, port) == (0, 0)
        await close_all()

    run(tmp_path, scenario)


@pytest.mark.parametrize("loaded", [True, False])
def test_behind_deleted_records(loaded: bool, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port)
        await one_finished(broker, port, topic_id)
        later = encode_batch([(b"k", b"v")] * 5, timestamp_ms=1_700_000_000_000)
        assert await produce(port, topic_id, later) == [0]
        assert await lags(broker, port) == (5, 5)
        if not loaded:
            unloaded(broker)
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.delete_records({FIRST: 6})
        assert await lags(broker, port) == (0, 0)

    run(tmp_path, scenario)


def test_a_member_passes_over_an_aborted_transaction(tmp_path: Path) -> None:
    """Found by `sharegroup simulate`: the lag stayed, though the member was past it. (Without order
    per key the member gets the marker, and acknowledges it as a gap.)"""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port)
        settings = {"share_ordering": "key", "share_isolation_level": "read_committed"}
        session = await one_finished(broker, port, topic_id, **settings)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"in it"}) == [0]
        assert await producer.end(commit=False) == 0
        await until(lambda: log_of(broker).last_stable_offset == 3)
        assert not (await session.fetch(0)).responses
        [led] = broker.parts.share_partitions.all()
        assert led.core.start_offset == 3
        assert await lags(broker, port) == (0, 0)
        await close_all()

    run(tmp_path, scenario)
