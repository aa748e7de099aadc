"""Clients of others, which know only a broker of ours, go on while brokers of the cluster behind it
die: what they are told then is what they repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from sharegroup import sync
from tests.apache_kafka.three_brokers import ThreeBrokers
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [pytest.mark.process, pytest.mark.kafka]
RECORDS = 100


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("three")) as cluster:
        yield cluster


def test_producers_and_groups_of_librdkafka_go_on(three: ThreeBrokers, tmp_path: Path) -> None:
    """Each broker dies once: one of them leads, and one coordinates."""
    failed: list[KafkaError] = []

    def written(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    with SharegroupServer(tmp_path, arguments=["--upstream", three.bootstrap]) as node:
        with sync.Admin(node.bootstrap) as ours:
            ours.create_topics("going", partitions=3)  # with three replicas, as is the default
        at = {"bootstrap.servers": node.bootstrap, "error_cb": failed.append, **admin.SILENT}
        producer = Producer({**at, "acks": "all"})
        consumer = Consumer({**at, "group.id": "goers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["going"])
        seen: set[bytes | None] = set()
        sent: set[bytes | None] = set()
        for turn in range(len(three.brokers) + 1):
            if turn:
                back = three.brokers[turn - 1]
                back.kill()
            for number in range(RECORDS):
                value = b"%d-%d" % (turn, number)
                producer.produce("going", value, on_delivery=written)
                sent.add(value)
            assert producer.flush(60) == 0
            while not sent <= seen:
                message = consumer.poll(60)
                assert message is not None
                assert message.error() is None
                seen.add(message.value())
            consumer.commit(asynchronous=False)
            if turn:
                back.process.start()
                three.wait_for(back)
        consumer.close()
        assert failed == []
