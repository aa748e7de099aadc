"""Records of groups that are not served here outlive a rewrite of ``__consumer_offsets``."""

from __future__ import annotations

from pathlib import Path

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.batch import TRANSACTIONAL, decode_batch, encode_batch, parse_headers
from sharegroup.wire.internal.groups import KEY_PREFIXES
from sharegroup.wire.markers import MarkerType, encode_marker, is_transactional
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker import share_wire
from tests.broker.running import run

EVERY_20 = "group.share.records.per.rewrite=20"


def foreign_key(group: str, partition: int) -> bytes:
    """A key of a streams group (type 17), which is not served here."""
    name = group.encode()
    return b"\0\x11" + len(name).to_bytes(2, "big") + name + partition.to_bytes(4, "big")


def live_records(records: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """The last value of each foreign key."""
    found = {key: value for key, value in records if key[:2] not in KEY_PREFIXES}
    return {key: value for key, value in found.items() if value is not None}


async def records(broker: Broker) -> list[tuple[bytes, bytes | None]]:
    """Everything in the log but transaction markers."""
    log = broker.parts.topics.log(CONSUMER_OFFSETS, 0)
    data = (await log.read(log.log_start_offset, 1 << 24)).data
    decoded = [(key or b"", value) for _, _, key, value in decode_batch(data)]
    return [(key, value) for key, value in decoded if len(key) > 4]


async def open_keys(broker: Broker) -> set[bytes]:
    """The keys in transactional batches."""
    log = broker.parts.topics.log(CONSUMER_OFFSETS, 0)
    data = (await log.read(log.log_start_offset, 1 << 24)).data
    found: set[bytes] = set()
    position = 0
    for header in parse_headers(data):
        batch = data[position : position + header.length]
        position += header.length
        if is_transactional(header):
            found |= {key or b"" for _, _, key, _ in decode_batch(batch)}
    return found


async def come_and_go(broker: Broker, port: int, times: int) -> None:
    """Members whose records make the log long enough for a rewrite."""
    log = broker.parts.topics.log(CONSUMER_OFFSETS, 0)
    start = log.log_start_offset
    connection = await share_wire.connect(port)
    for epoch in (0, -1) * times:
        topics = [share_wire.TOPIC] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest("busy", "m", epoch, None, topics)
        answer = await connection.send(
            apis.SHARE_GROUP_HEARTBEAT, request, timeout_ms=share_wire.TIMEOUT_MS
        )
        assert answer.error_code == 0, answer
    connection.close()
    await share_wire.until(lambda: log.log_start_offset > start)


def test_the_last_value_of_each_foreign_key_is_kept(tmp_path: Path) -> None:
    expected = {foreign_key("readers", 0): b"new", foreign_key("readers", 1): b"only"}

    async def write(broker: Broker, port: int) -> None:
        await share_wire.started(broker, port, partitions=1)
        log = broker.parts.topics.internal_log(CONSUMER_OFFSETS, 0)
        foreign = [
            (foreign_key("readers", 0), b"old"),
            (foreign_key("gone", 0), b"deleted later"),
            *expected.items(),
            (foreign_key("gone", 0), None),
        ]
        log.append_trusted(encode_batch(foreign, timestamp_ms=1))
        for number, end in enumerate((MarkerType.COMMIT, MarkerType.ABORT, None)):
            producer = {"producer_id": 100 + number, "producer_epoch": 0}
            value = b"open" if end is None else end.name.encode()
            in_transaction = [(foreign_key("in a transaction", number), value)]
            log.append_trusted(
                encode_batch(in_transaction, timestamp_ms=1, attributes=TRANSACTIONAL, **producer)
            )
            if end is not None:
                log.append_trusted(encode_marker(end, timestamp_ms=1, **producer))
        await log.wait_durable(log.log_end_offset)

    async def rewrite(broker: Broker, port: int) -> None:
        await come_and_go(broker, port, 30)
        found = live_records(await records(broker))
        assert found == {
            **expected,
            foreign_key("in a transaction", 0): b"COMMIT",
            foreign_key("in a transaction", 2): b"open",
        }
        assert await open_keys(broker) == {foreign_key("in a transaction", 2)}
        assert (foreign_key("readers", 0), b"old") not in await records(broker)
        broker.parts.groups.groups.check_invariants()

    run(tmp_path, write)
    run(tmp_path, rewrite, EVERY_20)
    run(tmp_path, rewrite, EVERY_20)
