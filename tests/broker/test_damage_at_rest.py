"""Share groups over logs that were damaged while the broker was down, after a clean end."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.broker.metrics.node import LOG_DAMAGED, NODE
from sharegroup.broker.metrics.table import Scrape
from sharegroup.broker.server import Broker
from sharegroup.client.admin.admin import Admin
from sharegroup.model.histogram import Histogram
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.batch import parse_header
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker import running, share_wire
from tests.broker.share_wire import ACCEPT
from tests.broker.test_damage import positions
from tests.records.bad import lies

WHERE = TopicPartition(share_wire.TOPIC, 0)
BATCH = 5


def log_file(folder: Path, topic: str = share_wire.TOPIC) -> Path:
    return next(folder.glob(f"**/{topic}-0/*0.log"))


def produced(folder: Path, batches: int, *, accepted: int = 0) -> UUID:
    """Batches of five records each, the first ``accepted`` records accepted, a clean stop."""
    found: list[UUID] = []

    async def scenario(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        found.append(session.topic_id)
        broker.parts.store.set_topic_config(
            share_wire.TOPIC, {"retention.ms": "-1"}
        )  # the records are old
        await share_wire.produce(port, session.topic_id, 0, *[BATCH] * batches)
        await session.fetch(0, max_records=0)
        if accepted:
            await session.fetch(max_records=accepted)
            answer = await session.acknowledge({0: [(0, accepted - 1, [ACCEPT])]})
            assert share_wire.codes(answer) == {0: 0}

    running.run(folder, scenario)
    return found[0]


async def drained(session: share_wire.Session) -> list[int]:
    """The offsets that the group still gets, accepted."""
    taken: list[int] = []
    while True:
        got = share_wire.acquired(await session.fetch()).get(0, [])
        if not got:
            return taken
        acks = [(first, last, [ACCEPT]) for first, last, _ in got]
        assert share_wire.codes(await session.acknowledge({0: acks})) == {0: 0}
        taken += [at for first, last, _ in got for at in range(first, last + 1)]


async def resumed(port: int, topic_id: UUID) -> share_wire.Session:
    session = share_wire.Session(await share_wire.connect(port), topic_id)
    await session.fetch(0, max_records=0)
    return session


async def left(port: int) -> None:
    """The member that has begun the group is gone."""
    connection = await share_wire.connect(port)
    leave = ShareGroupHeartbeatRequest(share_wire.GROUP, "starter", -1, None, None)
    answer = await connection.send(apis.SHARE_GROUP_HEARTBEAT, leave, timeout_ms=30_000)
    assert answer.error_code == 0, answer
    connection.close()


def flip(file: Path, position: int, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= bit
    file.write_bytes(data)


def zero(file: Path, position: int, size: int) -> None:
    data = bytearray(file.read_bytes())
    data[position : position + size] = bytes(size)
    file.write_bytes(data)


@pytest.mark.parametrize("what", ["base offset", "length", "zeros", "records"])
@pytest.mark.parametrize("batch", [0, 3, 9])
def test_a_group_skips_damage_of_any_kind(
    what: str, batch: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = produced(tmp_path, 10)
    file = log_file(tmp_path)
    at = [position for position, _ in positions(file.read_bytes())][batch]
    if what == "base offset":
        flip(file, at + 6, 0x20)
    elif what == "length":
        flip(file, at + 10, 0x01)
    elif what == "zeros":
        zero(file, at, 61)
    else:
        flip(file, at + 70, 0x04)
    lost = range(BATCH * batch, BATCH * batch + BATCH)

    async def after(broker: Broker, port: int) -> None:
        session = await resumed(port, topic_id)
        assert await drained(session) == [at for at in range(50) if at not in lost]
        key = SharePartitionKey(share_wire.GROUP, topic_id, 0)
        await share_wire.until(lambda: not broker._tasks)
        assert (await broker.parts.state.read_summary(key)).start_offset == 50, "all is done"
        assert "Traceback" not in caplog.text
        said = [r for r in caplog.records if f"offsets {lost[0]} to {lost[-1]}" in r.getMessage()]
        assert len(said) == 2, "once for the log, once for the group"
        samples = NODE.read(Scrape(broker.parts, Histogram(), {}))
        gauges = [one for one in samples if one.metric is LOG_DAMAGED]
        assert [one.value for one in gauges if one.labels == (share_wire.TOPIC, "0")] == [BATCH]
        async with Admin(f"127.0.0.1:{port}") as admin:
            offsets = (await admin.list_share_group_offsets(share_wire.GROUP))[WHERE]
            assert [tuple(each) for each in offsets.damaged] == [(lost[0], lost[-1])]
            assert offsets.lag == 0
            records = (await admin.describe_record_states(share_wire.GROUP))[WHERE]
            assert [tuple(each) for each in records.damaged] == [(lost[0], lost[-1])]

    running.run(tmp_path, after)


@pytest.mark.parametrize("clean", [True, False])
def test_new_records_never_get_offsets_seen_by_a_group(
    clean: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log loses its tail, and with it what says how far it was durable."""
    topic_id = produced(tmp_path, 60, accepted=300)
    file = log_file(tmp_path)
    size = file.stat().st_size
    os.truncate(file, size // 60 * 54 + (0 if clean else 7))
    next(tmp_path.glob("**/recovery-point-offset-checkpoint")).unlink()
    for snapshot in file.parent.glob("*.snapshot"):
        snapshot.unlink()
    if not clean:
        next(tmp_path.glob("**/.kafka_cleanshutdown")).unlink()

    async def after(broker: Broker, port: int) -> None:
        assert "offsets up to 300: data is missing" in caplog.text
        await share_wire.produce(port, topic_id, 0, *[BATCH] * 10)
        session = await resumed(port, topic_id)
        assert await drained(session) == list(range(300, 350))
        async with Admin(f"127.0.0.1:{port}") as admin:
            offsets = (await admin.list_share_group_offsets(share_wire.GROUP))[WHERE]
            assert (offsets.start_offset, offsets.lag) == (350, 0)
            assert [tuple(each) for each in offsets.damaged] == [(270, 299)]

    running.run(tmp_path, after)

    async def again(broker: Broker, port: int) -> None:
        await share_wire.produce(port, topic_id, 0, BATCH)
        assert await drained(await resumed(port, topic_id)) == list(range(350, 355))

    running.run(tmp_path, again)


def test_a_start_set_past_the_end_by_an_administrator_is_not_a_lost_tail(tmp_path: Path) -> None:
    topic_id = produced(tmp_path, 2)

    async def alter(broker: Broker, port: int) -> None:
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.alter_share_group_offsets("other", {WHERE: 12})
        session = share_wire.Session(await share_wire.connect(port), topic_id, group="other")
        await session.fetch(0, max_records=0)
        assert await drained(session) == []

    async def after(broker: Broker, port: int) -> None:
        log = broker.parts.topics.log(share_wire.TOPIC, 0)
        assert (log.log_end_offset, log.damages()) == (10, [])
        await share_wire.produce(port, topic_id, 0, BATCH)
        session = share_wire.Session(await share_wire.connect(port), topic_id, group="other")
        await session.fetch(0, max_records=0)
        assert await drained(session) == [12, 13, 14]

    running.run(tmp_path, alter)
    running.run(tmp_path, after)


def test_lost_delivery_state_is_logged_with_its_repair_and_errors_are_delayed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = produced(tmp_path, 4, accepted=10)
    log_file(tmp_path, SHARE_GROUP_STATE).unlink()

    async def after(broker: Broker, port: int) -> None:
        await left(port)
        errors = [r for r in caplog.records if "reset-offsets" in r.getMessage()]
        assert len(errors) == 1
        assert f"--all-topics --to-earliest --execute {share_wire.GROUP}`" in errors[0].getMessage()
        session = share_wire.Session(await share_wire.connect(port), topic_id)
        first = share_wire.parts(await session.fetch(0, max_wait_ms=20_000))
        assert first[0].error_code == 78, "OFFSET_NOT_AVAILABLE, said at once"
        waiting = len(broker.parts.waiters)
        again = asyncio.ensure_future(session.fetch(max_wait_ms=20_000))
        await share_wire.until(lambda: len(broker.parts.waiters) > waiting)
        async with Admin(f"127.0.0.1:{port}") as admin:
            outcome = await admin.alter_share_group_offsets(share_wire.GROUP, {WHERE: 0})
            assert outcome == {WHERE: None}
        got = share_wire.acquired(await again)
        assert [one[:2] for one in got[0]] == [(0, 19)]

    running.run(tmp_path, after)


def test_a_copy_of_the_folder_without_a_middle_segment(tmp_path: Path) -> None:
    """The group gets what is left, and everybody is told what is not."""
    found: list[UUID] = []

    async def fill(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        found.append(session.topic_id)
        broker.parts.store.set_topic_config(
            share_wire.TOPIC, {"segment.bytes": "1048576", "retention.ms": "-1"}
        )
        for _ in range(4):
            await share_wire.produce(port, session.topic_id, 0, *[400] * 2, size=1000)
        await session.fetch(0, max_records=0)

    running.run(tmp_path, fill)
    files = sorted(next(tmp_path.glob("**/jobs-0")).glob("*.log"))
    assert len(files) >= 3
    first, end = int(files[1].stem), int(files[2].stem)
    shutil.move(files[1], tmp_path / "lost")

    async def after(broker: Broker, port: int) -> None:
        session = await resumed(port, found[0])
        assert await drained(session) == [at for at in range(3200) if not first <= at < end]
        async with Admin(f"127.0.0.1:{port}") as admin:
            offsets = (await admin.list_share_group_offsets(share_wire.GROUP))[WHERE]
        assert [tuple(each) for each in offsets.damaged] == [(first, end - 1)]

    running.run(tmp_path, after)


def test_inconsistent_batches_in_an_old_log_block_no_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their CRCs are right: an earlier version has appended them, and no scan finds them."""
    topic_id = produced(tmp_path, 1)
    expected = list(range(BATCH))
    lost: list[int] = []

    async def as_before(broker: Broker, port: int) -> None:
        log = broker.parts.topics.log(share_wire.TOPIC, 0)
        for bad, _ in lies().values():
            header = parse_header(bad)
            if header.last_offset_delta < 1000:
                lost.extend(range(log.log_end_offset, log.log_end_offset + header.record_count))
                log.append_trusted(bad)
            expected.append(log.log_end_offset)
            log.append_trusted(share_wire.batch_of(1))
        await log.wait_durable(log.log_end_offset)

    async def after(broker: Broker, port: int) -> None:
        session = await resumed(port, topic_id)
        assert await drained(session) == expected
        await share_wire.until(lambda: not broker._tasks)
        async with Admin(f"127.0.0.1:{port}") as admin:
            offsets = (await admin.list_share_group_offsets(share_wire.GROUP))[WHERE]
        assert (offsets.start_offset, offsets.lag) == (expected[-1] + 1, 0)
        assert [at for one in offsets.damaged for at in range(one.first, one.last + 1)] == lost
        assert "Traceback" not in caplog.text

    running.run(tmp_path, as_before)
    running.run(tmp_path, after)


def test_a_group_whose_metadata_is_lost_keeps_its_delivery_state(tmp_path: Path) -> None:
    """``__consumer_offsets`` is gone, the state log is not: nothing accepted comes again."""
    topic_id = produced(tmp_path, 4, accepted=10)
    log_file(tmp_path, CONSUMER_OFFSETS).unlink()

    async def after(broker: Broker, port: int) -> None:
        assert broker.parts.groups.groups.group_ids() == []
        await share_wire.new_group(broker, port)
        assert await drained(await resumed(port, topic_id)) == list(range(10, 20))

    running.run(tmp_path, after)


def test_half_of_the_delivery_state_zeroed_names_the_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is delivered again, and nothing is lost (issue 27)."""
    topic_id = produced(tmp_path, 4, accepted=10)
    file = log_file(tmp_path, SHARE_GROUP_STATE)
    size = file.stat().st_size
    os.truncate(file, size // 2)
    os.truncate(file, size)

    async def after(broker: Broker, port: int) -> None:
        (said,) = [each for each in caplog.messages if "may be delivered again" in each]
        assert said.endswith(f": {share_wire.GROUP}")
        assert await drained(await resumed(port, topic_id)) == list(range(20))

    running.run(tmp_path, after)
