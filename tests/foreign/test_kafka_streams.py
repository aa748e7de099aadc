"""Kafka Streams, driven by a small program of ours (`java/StreamsWork.java`): word counts with
stores, changelog and repartition topics, exactly once."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from tests.apache_kafka.jars import STREAMS
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "java" / "StreamsWork.java"
PARTITIONS = 2
LINES = 300
PATIENCE_SECONDS = 150
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled program."""
    return compile_java(SOURCE, tmp_path_factory.mktemp("classes"), STREAMS)


@contextmanager
def running(
    program: str, broker: RunningServer, folder: Path, *settings: str
) -> Iterator[subprocess.Popen[str]]:
    """The application, until its input ends; what it printed is in `folder`/streams.log."""
    command = [java_command(), *SHORT_RUN, QUIET, "-cp", program, "StreamsWork"]
    command += [broker.bootstrap, "words-app", str(folder / "state"), "1", *settings]
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


def produce_lines(broker: RunningServer, begin_ms: int, seed: int) -> tuple[Counter[str], ...]:
    """Lines of four words each, over three minutes; how often each word, and each in its minute."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    chosen = random.Random(seed)
    words: Counter[str] = Counter()
    minutes: Counter[str] = Counter()
    for number in range(LINES):
        line = chosen.choices("abcdefgh", k=4)
        at_ms = begin_ms + number * 3 * MINUTE_MS // LINES
        words.update(line)
        minutes.update(f"{word}@{at_ms // MINUTE_MS * MINUTE_MS}" for word in line)
        producer.produce("words", " ".join(line), partition=0, timestamp=at_ms)
    assert producer.flush(ADMIN_SECONDS) == 0
    return words, minutes


def last_values(broker: RunningServer, topic: str) -> dict[str, int]:
    """The last committed value of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "not-used",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **SILENT,
        }
    )
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in range(PARTITIONS)])
    values, ends = {}, 0
    try:
        while ends < PARTITIONS and (message := consumer.poll(ADMIN_SECONDS)):
            if message.error() is not None:  # the end of a partition
                ends += 1
            else:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                values[key.decode()] = int(value)
    finally:
        consumer.close()
    return values


def wait_for(what: Callable[[], bool], app: subprocess.Popen[str], folder: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not what():
        said = (folder / "streams.log").read_text()
        assert app.poll() is None, said[-4000:]
        assert time.monotonic() < end, said[-4000:]


@pytest.mark.timeout(2 * PATIENCE_SECONDS + 60)
def test_exactly_once_over_a_kill_of_the_broker(
    own_broker: RunningServer, program: str, tmp_path: Path
) -> None:
    admin = Admin(own_broker.bootstrap)
    for topic in ("words", "counts", "minutes"):
        admin.create_topic(topic, partitions=PARTITIONS)
    # Present times: retention takes older ones.
    begin_ms = int(time.time()) * 1000 // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS
    words, minutes = produce_lines(own_broker, begin_ms, 1)
    settings = ("processing.guarantee=exactly_once_v2", "statestore.cache.max.bytes=0")
    with running(program, own_broker, tmp_path, *settings) as app:
        wait_for(lambda: bool(last_values(own_broker, "counts")), app, tmp_path)
        more_words, more_minutes = produce_lines(own_broker, begin_ms + 3 * MINUTE_MS, 2)
        own_broker.kill()  # while transactions are open
        own_broker.start()
        expected = dict(words + more_words)
        wait_for(lambda: last_values(own_broker, "counts") == expected, app, tmp_path)
        expected_minutes = dict(minutes + more_minutes)
        wait_for(lambda: last_values(own_broker, "minutes") == expected_minutes, app, tmp_path)
        assert app.stdin is not None
        app.stdin.close()
        assert app.wait(PATIENCE_SECONDS) == 0
    assert "ended" in (tmp_path / "streams.log").read_text()
    assert cleanup_policies(admin) == ["compact", "compact,delete", "delete", "delete"]


def cleanup_policies(admin: Admin) -> list[str]:
    """Of the application's own topics: stores, stores with windows, and repartition topics."""
    topics = admin.client.list_topics(timeout=ADMIN_SECONDS).topics
    own = [ConfigResource("topic", name) for name in topics if name.startswith("words-app")]
    described = admin.client.describe_configs(own).values()
    return sorted(str(one.result(ADMIN_SECONDS)["cleanup.policy"].value) for one in described)


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_the_streams_protocol_is_refused_in_words(
    own_broker: RunningServer, program: str, tmp_path: Path
) -> None:
    Admin(own_broker.bootstrap).create_topic("words")
    said = tmp_path / "streams.log"
    with running(program, own_broker, tmp_path, "group.protocol=streams") as app:
        wait_for(lambda: "died" in said.read_text(), app, tmp_path)
    assert "UnsupportedVersionException" in said.read_text()
