"""The blocking front, against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from sharegroup.client import IllegalState, Wakeup
from sharegroup.model.errors import InvalidPartitions
from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Admin, Producer, ShareConsumer
from sharegroup.sync.front import SHARED_LOOP
from sharegroup.sync.loop_thread import LoopThread
from tests.client.working import fresh
from tests.servers.running import RunningServer

COUNT = 25_000  # more than a producer queues before it waits for the other thread


@pytest.fixture
def names(broker: RunningServer) -> tuple[str, str]:
    topic, group = fresh("topic"), fresh("group")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(topic, partitions=2)
        admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
    return topic, group


def loop_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "sharegroup-client"]


def test_produce_and_consume(broker: RunningServer, names: tuple[str, str]) -> None:
    topic, group = names
    with Producer(broker.bootstrap) as producer:
        for number in range(COUNT):
            producer.enqueue(topic, b"%d" % number, key="one")
        producer.flush()
        assert producer.send(topic, "last", key="one").offset == COUNT
    values = []
    with ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        for record in consumer:
            values.append(record.value)
            if record.value == b"last":
                assert set(consumer.commit().values()) == {None}
                break
    assert values == [*(b"%d" % number for number in range(COUNT)), b"last"]
    with Admin(broker.bootstrap) as admin:
        offsets = admin.list_share_group_offsets(group)
        assert sum(one.lag or 0 for one in offsets.values()) == 0
    assert loop_threads() == []


def test_leaving_a_loop_by_an_exception_releases(
    broker: RunningServer, names: tuple[str, str]
) -> None:
    topic, group = names
    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            producer.enqueue(topic, b"%d" % number, partition=0)
    settings: dict[str, Any] = {"group_id": group, "bootstrap_servers": broker.bootstrap}

    def interrupted() -> None:
        with ShareConsumer(topic, **settings) as consumer:
            for record in consumer:
                if record.offset == 3:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with ShareConsumer(topic, acknowledgement_mode="explicit", **settings) as consumer:
        again = []
        while len(again) < 7:
            for record in consumer.poll():
                again.append((record.offset, record.delivery_count))
                consumer.accept(record)
        assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert again == [(offset, 2) for offset in range(3, 10)]
    assert loop_threads() == []


def drain(consumer: ShareConsumer) -> None:
    while True:
        consumer.poll(timeout_ms=60_000)


def test_callback_wakeup_and_batches(broker: RunningServer, names: tuple[str, str]) -> None:
    topic, group = names
    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            producer.enqueue(topic, b"%d" % number, partition=0)
    heard: list[tuple[str, bool]] = []

    def callback(offsets: Any, error: Any) -> None:
        with pytest.raises(IllegalState, match="callback"):
            consumer.poll()
        heard.append((threading.current_thread().name, error is None))

    consumer = ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        acknowledgement_commit_callback=callback,
        max_poll_records=5,
    )
    with consumer:
        batches = consumer.batches()
        first = next(batches)
        assert [record.offset for record in first] == list(range(len(first)))
        assert consumer.commit(timeout_ms=120_000) == {TopicPartition(topic, 0): None}
        assert heard == [(threading.current_thread().name, True)]
        assert consumer.metrics()["consumer-share-metrics", "last-poll-seconds-ago"] >= 0
        consumer.set_acknowledgement_commit_callback(None)
        threading.Timer(0.1, consumer.wakeup).start()
        with pytest.raises(Wakeup):
            drain(consumer)
    assert loop_threads() == []


def test_closing_in_the_loops_body_ends_the_loop(
    broker: RunningServer, names: tuple[str, str]
) -> None:
    topic, group = names
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"0", partition=0)
    with ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        for record in consumer:
            assert record.value == b"0"
            consumer.close()


def test_closing_in_another_thread_ends_the_loop(
    broker: RunningServer, names: tuple[str, str]
) -> None:
    topic, group = names
    with ShareConsumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as consumer:
        closing = threading.Timer(1.0, consumer.close)
        closing.start()
        assert list(consumer) == []
        closing.join()


def test_an_error_is_raised_by_result_flush_or_send(
    broker: RunningServer, names: tuple[str, str]
) -> None:
    topic, _ = names
    with Producer(broker.bootstrap) as producer:
        refused = producer.enqueue(topic, b"x", partition=9)
        with pytest.raises(InvalidPartitions):
            refused.result()
        producer.flush()  # whoever asked knows it
        producer.enqueue(topic, b"x", partition=9)
        with pytest.raises(InvalidPartitions):
            producer.flush()
        with pytest.raises(InvalidPartitions):
            producer.send(topic, b"x", partition=9)
        assert producer.send_and_wait(topic, b"x", partition=1).offset == 0


def test_several_threads_send_through_one_producer(
    broker: RunningServer, names: tuple[str, str]
) -> None:
    topic, _ = names
    with Producer(broker.bootstrap) as producer, ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda n: producer.send(topic, str(n), partition=0), range(200)))
    assert sorted(one.offset for one in sent) == list(range(200))


# The child has its parent's environment, and so the family's name.
FORKING = """
import sys
from os import _exit, fork, waitpid
from sharegroup.sync import Admin, Producer
from sharegroup.client.errors import IllegalState

def refused(call):
    try:
        call()
    except IllegalState as error:
        return "forked" in str(error)

with Admin(sys.argv[1]) as admin, Producer(sys.argv[1]) as producer:
    child = fork()
    if not child:
        with Admin(sys.argv[1]) as own:
            mine = own.describe_cluster().cluster_id
        told = refused(admin.describe_cluster) and refused(lambda: producer.send("t", "x"))
        admin.close()
        _exit(0 if mine and told else 1)
    assert waitpid(child, 0)[1] == 0
    admin.describe_cluster()
"""


def test_a_forked_process_makes_clients_of_its_own(broker: RunningServer) -> None:
    """The thread of the parent's clients is not there: who asked them would wait for ever."""
    command = [sys.executable, "-c", FORKING, broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_call_on_the_clients_own_thread_is_refused() -> None:
    with closing(LoopThread("own")) as own:

        async def inside() -> None:
            own.run(asyncio.sleep(0))

        with pytest.raises(IllegalState, match="on another thread"):
            own.run(inside())


def test_unclosed_clients_warn() -> None:
    for make in (Producer, Admin, lambda: ShareConsumer("t", group_id="g")):
        with pytest.warns(ResourceWarning, match="was not closed: write `with"):
            make()
        SHARED_LOOP.leave()
    assert loop_threads() == []


def test_closed_clients_refuse_calls() -> None:
    consumer = ShareConsumer("t", group_id="g")
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalState, match="closed"):
        consumer.poll()
    assert list(consumer) == []
