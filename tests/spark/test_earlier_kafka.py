"""The Apache Kafka before the reference: client and Spark source work with it, in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from sharegroup.client import Record, ShareConsumer
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.jars import KAFKA_WITH_TOOLS
from tests.client.conftest import QUICK
from tests.client.working import poll_until, run, topic_with
from tests.servers.running import RunningServer
from tests.spark.conftest import all_done
from tests.spark.readers import Stream, produce_singly, until

pytestmark = pytest.mark.kafka

COUNT = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), *QUICK, jars=KAFKA_WITH_TOOLS) as running:
        yield running


def test_released_records_are_redelivered_until_accepted(server: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(server.bootstrap, COUNT)
        consumer = ShareConsumer(
            topic,
            group_id=group,
            bootstrap_servers=server.bootstrap,
            acknowledgement_mode="explicit",
        )

        def answer(record: Record) -> None:
            first = record.delivery_count == 1 and record.offset % 2
            (consumer.release if first else consumer.accept)(record)

        async with consumer:
            records = await poll_until(consumer, COUNT + COUNT // 2, answer)
            assert set((await consumer.commit()).values()) == {None}
        times = Counter(record.offset for record in records)
        assert times == {offset: 1 + offset % 2 for offset in range(COUNT)}

    run(scenario)


def test_a_stream_reads_every_record_and_settles_it(server: RunningServer, topic: str) -> None:
    values = [b"%d" % number for number in range(COUNT)]
    produce_singly(server, topic, values)
    stream = Stream(server, topic)
    assert stream.values(COUNT) == Counter(values)
    until(lambda: all_done(server, topic))
    stream.stop()
