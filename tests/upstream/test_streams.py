"""Kafka Streams, exactly once, through two brokers in front of Apache Kafka, beside a share group
on the topic that it writes. One of the brokers is killed meanwhile."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.jars import STREAMS
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.foreign.share_reader import receive, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka
SOURCE = Path(__file__).parent / "java" / "StreamsCount.java"
KEYS = 10
ROUNDS = 20
SECONDS = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled program."""
    return compile_java(SOURCE, tmp_path_factory.mktemp("classes"), STREAMS)


@contextmanager
def numbering(program: str, bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The application; what it printed is in `folder`/streams.log."""
    command = [java_command(), *SHORT_RUN, QUIET, "-cp", program, "StreamsCount"]
    command += [bootstrap, str(folder / "state")]
    with (
        (folder / "streams.log").open("a") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def order(bootstrap: str, rounds: int) -> None:
    """So many records of each key."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, **admin.SILENT}
    )
    for _ in range(rounds):
        for key in range(KEYS):
            producer.produce("orders", b"x", key=b"%d" % key)
    assert producer.flush(SECONDS) == 0


def numbers(rounds: int) -> Counter[tuple[bytes, bytes]]:
    """Each number of each key once."""
    return Counter((b"%d" % key, b"%d" % (n + 1)) for key in range(KEYS) for n in range(rounds))


def accepted(consumer: ShareConsumer, count: int) -> Counter[tuple[bytes, bytes]]:
    """What a member gets until it has accepted so many records."""
    found: Counter[tuple[bytes, bytes]] = Counter()
    while found.total() < count:
        found.update((one.key() or b"", one.value() or b"") for one in receive(consumer))
        consumer.commit_sync(SECONDS)
    return found


def committed(bootstrap: str, topic: str) -> Counter[tuple[bytes, bytes]]:
    """What of the topic is committed."""
    settings = {"group.id": "auditors", "auto.offset.reset": "earliest", **admin.SILENT}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, **settings})
    consumer.subscribe([topic])
    found: Counter[tuple[bytes, bytes]] = Counter()
    ends: set[int | None] = set()
    while len(ends) < 2:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is not None:
            ends.add(message.partition())
        else:
            found[message.key() or b"", message.value() or b""] += 1
    consumer.close()
    return found


@pytest.mark.parametrize("cluster", [pytest.param(KafkaBroker, id="kafka")], indirect=True)
def test_a_pipeline_is_exactly_once_beside_a_share_group(
    cluster: RunningServer, node: SharegroupServer, program: str, tmp_path: Path
) -> None:
    for topic in ("orders", "numbered"):
        admin.Admin(node.bootstrap).create_topic(topic, partitions=2)
    nodes = admin.Admin(node.bootstrap)
    nodes.start_group_at_earliest("shippers")
    nodes.set_group("shippers", share_isolation_level="read_committed")
    (tmp_path / "other").mkdir()
    with SharegroupServer(tmp_path / "other", arguments=["--upstream", cluster.bootstrap]) as other:
        both = f"{other.bootstrap},{node.bootstrap}"
        with (
            numbering(program, both, tmp_path) as app,
            share_consumer(both, "shippers", "numbered", explicit=False) as consumer,
        ):
            order(both, ROUNDS)
            found = accepted(consumer, KEYS * ROUNDS)
            assert found == numbers(ROUNDS), (tmp_path / "streams.log").read_text()
            other.kill()
            order(both, ROUNDS)
            found += accepted(consumer, KEYS * ROUNDS)
            assert app.stdin is not None
            app.stdin.close()
            assert app.wait(SECONDS) == 0, (tmp_path / "streams.log").read_text()
            assert not list(consumer.poll(0.5)), "each record was accepted once"
    assert found == numbers(2 * ROUNDS)
    assert committed(cluster.bootstrap, "numbered") == numbers(2 * ROUNDS)
