"""The blocking consumer: callbacks on the program's own thread."""

from __future__ import annotations

import threading

import pytest

from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Admin, Consumer, Producer
from tests.client.working import fresh
from tests.servers.running import RunningServer


def filled(broker: RunningServer, count: int) -> str:
    topic = fresh("sync-read")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(topic, partitions=1)
    with Producer(broker.bootstrap) as producer:
        for number in range(count):
            producer.enqueue(topic, str(number))
    return topic


def test_a_loop_goes_on_where_the_last_program_stopped(group_broker: RunningServer) -> None:
    topic, group = filled(group_broker, 4), fresh("group")
    with Consumer(
        topic,
        group_id=group,
        auto_offset_reset="earliest",
        bootstrap_servers=group_broker.bootstrap,
    ) as consumer:
        for record in consumer:
            if record.offset == 1:
                break
        assert consumer.position(topic, 0) == 2
    with Consumer(topic, group_id=group, bootstrap_servers=group_broker.bootstrap) as consumer:
        [records] = [next(iter(consumer.batches()))]
        assert [record.value for record in records] == [b"2", b"3"]


def test_callbacks_run_on_the_callers_thread_and_may_commit(group_broker: RunningServer) -> None:
    topic = filled(group_broker, 3)
    threads = []
    consumer: Consumer = Consumer(
        group_id=fresh("group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        bootstrap_servers=group_broker.bootstrap,
    )

    def assigned(wheres: list[TopicPartition]) -> None:
        threads.append(threading.get_ident())
        consumer.seek(*wheres[0], 1)

    def revoked(wheres: list[TopicPartition]) -> None:
        threads.append(threading.get_ident())
        consumer.commit({wheres[0]: 2})

    consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
    with consumer:
        assert next(iter(consumer)).offset == 1
        consumer.unsubscribe()
        [committed] = consumer.committed((topic, 0)).values()
        assert committed is not None
        assert committed.offset == 2
    assert threads == [threading.get_ident()] * 2


def test_an_error_of_a_callback_is_raised_by_the_poll(group_broker: RunningServer) -> None:
    topic = filled(group_broker, 1)
    consumer: Consumer = Consumer(
        group_id=fresh("group"),
        auto_offset_reset="earliest",
        bootstrap_servers=group_broker.bootstrap,
    )

    def assigned(wheres: list[TopicPartition]) -> None:
        raise LookupError(str(wheres[0]))

    consumer.subscribe(topic, on_assigned=assigned)
    with consumer:
        with pytest.raises(LookupError, match=f"{topic}-0"):
            consumer.poll(10_000)
        assert [record.value for record in consumer.poll(10_000)] == [b"0"]
