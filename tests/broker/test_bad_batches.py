"""Produced batches that lie, over a real socket: refused as Apache Kafka refuses them, nothing of
them is in the log, and the queue goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import InvalidRecord, InvalidTimestamp, KafkaError
from sharegroup.wire import apis
from sharegroup.wire.batch import LOG_APPEND_TIME, check_crc, encode_batch, parse_header
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.broker.by_hand import TIMEOUT_MS, Member, connect, produce, topic_with_records
from tests.broker.running import run
from tests.records.bad import GZIP, lies, of, packed
from tests.records.making import TIME_MS, batch_of, record, records

NOW_TOO_LATE_MS = 2**42
"""The year 2109; an hour ahead is allowed."""

LIES: dict[str, tuple[bytes, type[KafkaError]]] = {
    **lies(),
    "a base offset": (batch_of(records(1), 1, base_offset=5), InvalidRecord),
    "a record of tomorrow": (
        batch_of(record(0) + record(1, timestamp_delta=NOW_TOO_LATE_MS), 2),
        InvalidTimestamp,
    ),
    "the broker's kind of time": (batch_of(records(1), 1, attributes=8), InvalidTimestamp),
    "no sequence": (batch_of(records(1), 1, producer=(7, 0, -1)), InvalidRecord),
}


def test_every_inconsistent_batch_is_refused_and_the_next_record_delivered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        connection = await connect(port)
        for name, (bad, error) in LIES.items():
            assert await produce(connection, topic_id, bad) == error.code, name
        log = broker.topics.log("jobs", 0)
        assert log.log_end_offset == 1
        good = of(GZIP, packed(GZIP, records(3)), 3)
        assert await produce(connection, topic_id, good) == 0
        member = await Member.join(port, "reader")
        taken: list[int] = []
        while len(taken) < 4:
            for first, last, _ in await member.fetch(topic_id, wait_ms=1_000):
                taken += range(first, last + 1)
                assert await member.acknowledge(topic_id, first, last, 1) == 0
        assert taken == [0, 1, 2, 3]
        counted = broker.counters.statistics()
        assert sum(n for (name, _), n in counted.items() if name == "produce_errors") == len(LIES)

    run(tmp_path, scenario, "message.max.bytes=2000000")


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        configs = [CreatableTopicConfig("cleanup.policy", "compact,delete")]
        topic = CreatableTopic("jobs", 1, -1, configs=configs)
        request = CreateTopicsRequest([topic])
        await connection.send(apis.CREATE_TOPICS, request, timeout_ms=TIMEOUT_MS)
        found = broker.topics.find("jobs")
        assert found is not None
        keyless = encode_batch([(b"k", b"v"), (None, b"v")], timestamp_ms=TIME_MS)
        keyed = encode_batch([(b"k", b"v"), (b"", None)], timestamp_ms=TIME_MS)
        assert await produce(connection, found.topic_id, keyless) == InvalidRecord.code
        assert await produce(connection, found.topic_id, keyed) == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("stated", [-1, TIME_MS - 5, TIME_MS + 400_000])
def test_the_largest_timestamp_is_the_one_that_the_records_have(
    stated: int, tmp_path: Path
) -> None:
    """As in Kafka, which writes it into the header; time indexes and retention go by it."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        connection = await connect(port)
        body = record(0) + record(1, timestamp_delta=7) + record(2, timestamp_delta=3)
        batch = batch_of(body, 3, max_timestamp=stated)
        assert await produce(connection, topic_id, batch) == 0
        log = broker.topics.log("jobs", 0)
        stored = (await log.read(1, 1_000)).data
        header = parse_header(stored)
        assert (header.max_timestamp, header.base_timestamp) == (TIME_MS + 7, TIME_MS)
        assert not header.attributes & LOG_APPEND_TIME
        assert bytes(stored[61:]) == body
        check_crc(stored)
        found = await log.offset_of_max_timestamp()
        assert found == (2, TIME_MS + 7)

    run(tmp_path, scenario)
