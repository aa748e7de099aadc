"""A damaged batch: said, left out, and nothing else with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.broker.server import Broker
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, encode_batch, parse_headers
from tests.broker import running, share_wire
from tests.broker.test_share_state_log import accepted, batches, begin, run


@pytest.mark.parametrize("clean_end", [True, False])
def test_a_damaged_record_is_logged_and_the_others_are_read(
    clean_end: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean end no recovery looks at the log before the replay does."""

    async def write(broker: Broker) -> None:
        await begin(broker.parts.state, 1, 2)  # the batch at offset 0
        for first in (0, 10, 20):  # one batch each, at offsets 2, 3 and 4
            await broker.parts.state.write([accepted(1, first, first + 4)])
        await broker.parts.state.write([accepted(2, 0, 4)])

    async def look(broker: Broker) -> None:
        found = await batches(broker.parts.state, 1)
        assert [first for first, *_ in found] == [0, 20]
        assert len(await batches(broker.parts.state, 2)) == 1
        assert "offsets 3 to 3 are damaged" in caplog.text

    run(tmp_path, write)
    damage(tmp_path, f"{SHARE_GROUP_STATE}-0", 3)
    if not clean_end:
        next(tmp_path.glob("**/.kafka_cleanshutdown")).unlink()
    run(tmp_path, look)


def test_a_share_group_skips_damaged_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Offsets 2 to 4 are damaged, some of them as they were given back, some never delivered."""
    topic_ids: list[UUID] = []

    async def before(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        topic_ids.append(session.topic_id)
        await share_wire.produce(port, session.topic_id, 0, 2, 3, 2)
        await session.fetch(0, max_records=0)
        got = await session.fetch(max_records=4, batch_size=1, share_acquire_mode=1)
        assert share_wire.acquired(got) == {0: [(0, 3, 1)]}
        await session.acknowledge({0: [(0, 3, [share_wire.RELEASE])]})

    async def after(broker: Broker, port: int) -> None:
        session = share_wire.Session(await share_wire.connect(port), topic_ids[0])
        await session.fetch(0, max_records=0)
        taken = []
        for _ in range(3):
            ranges = share_wire.acquired(await session.fetch()).get(0, [])
            taken += [at for first, last, _ in ranges for at in range(first, last + 1)]
        assert taken == [0, 1, 5, 6]
        accepted = {0: [(0, 1, [share_wire.ACCEPT]), (5, 6, [share_wire.ACCEPT])]}
        assert share_wire.codes(await session.acknowledge(accepted)) == {0: 0}
        key = SharePartitionKey(share_wire.GROUP, topic_ids[0], 0)
        assert (await broker.parts.state.read_summary(key)).start_offset == 7
        assert "offsets 2 to 4 are damaged" in caplog.text

    running.run(tmp_path, before)
    damage(tmp_path, f"{share_wire.TOPIC}-0", 2)
    next(tmp_path.glob("**/.kafka_cleanshutdown")).unlink()
    running.run(tmp_path, after)


@pytest.mark.parametrize(("at", "bit"), [(16, 5), (8, 7), (8, 6)])
def test_a_share_group_gets_what_is_around_a_header_that_is_damaged_meanwhile(
    at: int, bit: int, tmp_path: Path
) -> None:
    """Magic or length: what this broker has written it does not check at each read."""

    async def scenario(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        await share_wire.produce(port, session.topic_id, 0, 2, 2, 2, 2, 2)
        await session.fetch(0, max_records=0)
        damage(tmp_path, f"{share_wire.TOPIC}-0", 4, at, 1 << bit)
        taken: list[int] = []
        while len(taken) < 8:
            ranges = share_wire.acquired(await session.fetch()).get(0, [])
            taken += [at for first, last, _ in ranges for at in range(first, last + 1)]
        assert taken == [0, 1, 2, 3, 6, 7, 8, 9]

    running.run(tmp_path, scenario)


def damage(
    folder: Path, partition: str, base_offset: int, byte: int = HEADER_BYTES + 3, bits: int = 0x10
) -> None:
    """Flip a bit in the batch at ``base_offset``; by default where no header is."""
    file = next(folder.glob(f"**/{partition}/*.log"))
    data = bytearray(file.read_bytes())
    at = next(at for at, header in positions(bytes(data)) if header.base_offset == base_offset)
    data[at + byte] ^= bits
    file.write_bytes(data)


def positions(log: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch of a log file."""
    at = 0
    for header in parse_headers(log):
        yield at, header
        at += header.length


def test_an_undecodable_internal_record_does_not_prevent_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batch is whole: what is in it is no record of an internal topic."""

    async def before(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1, records=3)
        await session.fetch(0)
        for topic in (SHARE_GROUP_STATE, CONSUMER_OFFSETS):
            log = broker.parts.topics.log(topic, 0)
            for key in (b"", b"\0", b"\0\0junk", b"\0\1junk", b"\0\x0b\0\1g", b"\xff" * 30):
                log.append_trusted(encode_batch([(key, b"\xff" * 9)], timestamp_ms=0))
            await log.wait_durable(log.log_end_offset)

    async def after(broker: Broker, port: int) -> None:
        for topic in (SHARE_GROUP_STATE, CONSUMER_OFFSETS):
            assert f"{topic}-0: the record at offset" in caplog.text
        assert broker.parts.groups.groups.group_ids() == [share_wire.GROUP]
        topic = broker.parts.topics.find(share_wire.TOPIC)
        assert topic is not None
        key = SharePartitionKey(share_wire.GROUP, topic.topic_id, 0)
        assert (await broker.parts.state.read_summary(key)).start_offset == 0

    running.run(tmp_path, before)
    running.run(tmp_path, after)
