"""The finer rules of Kafka's share consumer (spec §5), against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from sharegroup.client import (
    AckType,
    Admin,
    IllegalState,
    Producer,
    Record,
    RecordDeserializationError,
    Records,
    ShareConsumer,
    Wakeup,
)
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition
from tests.client.working import WAIT_S, eventually, numbers, poll_until, produce, run, topic_with
from tests.servers.running import RunningServer

FETCHING = "consumer-share-fetch-manager-metrics"


def consumer_of(broker: RunningServer, *topics: str, group: str, **settings: Any) -> ShareConsumer:
    return ShareConsumer(*topics, group_id=group, bootstrap_servers=broker.bootstrap, **settings)


async def lag_becomes(broker: RunningServer, group: str, wanted: int) -> None:
    async with Admin(broker.bootstrap) as admin, asyncio.timeout(WAIT_S):
        while True:
            offsets = await admin.list_share_group_offsets(group)
            if sum(one.lag or 0 for one in offsets.values()) == wanted:
                return


# --- acknowledging --------------------------------------------------------------------------------


def test_a_commit_that_times_out_raises_and_continues(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group=group) as consumer:
            await poll_until(consumer, 5)
            [(partition, error)] = (await consumer.commit(timeout_ms=0)).items()
            assert partition == TopicPartition(topic, 0)
            assert isinstance(error, RequestTimedOut)
            await lag_becomes(broker, group, 0)

    run(scenario)


def test_a_cancelled_commit_continues(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group=group) as consumer:
            await poll_until(consumer, 5)
            committing = asyncio.create_task(consumer.commit())
            await asyncio.sleep(0)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            await lag_becomes(broker, group, 0)
            await produce(broker.bootstrap, topic, 1)
            assert len(await poll_until(consumer, 1)) == 1, "the session is as it was"

    run(scenario)


def test_refused_acknowledgements_return_their_error(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with (
            consumer_of(broker, topic, group=group) as consumer,
            Admin(broker.bootstrap) as admin,
        ):
            await poll_until(consumer, 5)
            await admin.delete_topics(topic)
            # Apache Kafka deletes after it has answered, and takes acknowledgements until then.
            await eventually(admin.list_topics, lambda them: all(t.name != topic for t in them))
            [(partition, error)] = (await consumer.commit()).items()
            assert partition == TopicPartition(topic, 0)
            assert isinstance(error, UnknownTopicOrPartition | UnknownTopicId | NotLeaderOrFollower)

    run(scenario)


def test_the_last_answer_before_sending_counts(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 2)
        async with consumer_of(
            broker, topic, group=group, acknowledgement_mode="explicit"
        ) as consumer:
            first, second = await poll_until(consumer, 2)
            consumer.reject(first, second)
            consumer.release(second)
            consumer.acknowledge(first)
            [again] = await poll_until(consumer, 1, consumer.accept)
            assert (again.offset, again.delivery_count) == (second.offset, 2)
            assert first.delivery_count == 1
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_implicit_mode_refuses_acknowledge(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 1)
        async with consumer_of(broker, topic, group=group) as consumer:
            [record] = await poll_until(consumer, 1)
            for say in (consumer.accept, consumer.release, consumer.reject, consumer.renew):
                with pytest.raises(IllegalState, match="implicit mode"):
                    say(record)
            with pytest.raises(IllegalState, match="implicit mode"):
                consumer.acknowledge_offset(topic, 0, 0, AckType.REJECT)

    run(scenario)


def test_a_renewal_goes_with_a_commit_too(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        async with consumer_of(
            broker, topic, group=group, acknowledgement_mode="explicit"
        ) as consumer:
            first, second, third = await poll_until(consumer, 3)
            consumer.renew(first, second)
            consumer.accept(third)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            with pytest.raises(IllegalState, match="must be returned again first"):
                consumer.accept(first)
            await produce(broker.bootstrap, topic, 1)
            assert await consumer.poll() == [first, second], "and no others"
            consumer.accept(first, second)
            await poll_until(consumer, 1, consumer.accept)
            await consumer.commit()
        await lag_becomes(broker, group, 0)

    run(scenario)


# --- the callback ---------------------------------------------------------------------------------


def test_the_callback_runs_on_the_callers_task_and_may_not_use_the_consumer(
    broker: RunningServer,
) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        tasks: list[asyncio.Task[Any] | None] = []
        refusals: list[IllegalState] = []

        def callback(offsets: Any, error: KafkaError | None) -> None:
            tasks.append(asyncio.current_task())
            assert error is None
            consumer.wakeup()
            for call in (consumer.commit_async, lambda: consumer.subscribe(topic)):
                try:
                    call()
                except IllegalState as refusal:
                    refusals.append(refusal)
            raise ZeroDivisionError  # logged, and nobody's loss

        async with consumer_of(broker, topic, group=group) as consumer:
            consumer.set_acknowledgement_commit_callback(callback)
            await poll_until(consumer, 5)
            await consumer.commit()
            assert tasks == [asyncio.current_task()]
            assert len(refusals) == 2
            with pytest.raises(Wakeup):
                await consumer.poll()
            consumer.set_acknowledgement_commit_callback(None)

    run(scenario)


def test_closing_runs_the_callback(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        heard: list[Any] = []
        async with consumer_of(
            broker,
            topic,
            group=group,
            acknowledgement_mode="explicit",
            acknowledgement_commit_callback=lambda offsets, error: heard.append((offsets, error)),
        ) as consumer:
            consumer.accept(*await poll_until(consumer, 3))
        assert heard == [({TopicPartition(topic, 0): [(0, 2)]}, None)]

    run(scenario)


# --- polling --------------------------------------------------------------------------------------


def test_wakeup_ends_the_wait_and_nothing_is_lost(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with consumer_of(broker, topic, group=group) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            await asyncio.sleep(0.05)
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await waiting
            consumer.wakeup()
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await consumer.poll()
            await produce(broker.bootstrap, topic, 5)
            records = await poll_until(consumer, 5)
            assert [record.delivery_count for record in records] == [1] * 5

    run(scenario)


def test_a_consumer_is_for_one_task_at_a_time(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with consumer_of(broker, topic, group=group) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            await asyncio.sleep(0)
            with pytest.raises(IllegalState, match="another poll"):
                await consumer.poll()
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await waiting

    run(scenario)


@pytest.mark.parametrize("seen_max", [1, 5])
def test_closing_in_the_loops_body_ends_the_loop(broker: RunningServer, seen_max: int) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        seen = Records()
        async with consumer_of(broker, topic, group=group) as consumer:
            async for record in consumer:
                seen.append(record)
                if len(seen) == seen_max:
                    await consumer.close()
        assert len(seen) == seen_max

    run(scenario)


def test_batches_are_accepted_by_the_next_iteration(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 60, partitions=2)
        seen = Records()
        async with consumer_of(broker, topic, group=group, max_poll_records=10) as consumer:
            async for records in consumer.batches():
                for partition, ours in records.by_partition().items():
                    assert partition.topic == topic
                    assert [r.offset for r in ours] == sorted(r.offset for r in ours)
                seen += records
                if len(seen) == 60:
                    await consumer.commit()
                    break
        assert numbers(seen) == list(range(60))
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_keys_and_values_are_deserialized(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap) as producer:
            for value in ('{"n": 1}', "broken", '{"n": 3}', None):
                await producer.enqueue(topic, value, key="k")
        async with consumer_of(
            broker,
            topic,
            group=group,
            acknowledgement_mode="explicit",
            key_deserializer=bytes.decode,
            value_deserializer=json.loads,
        ) as consumer:
            [good] = await poll_until(consumer, 1, consumer.accept)
            assert (good.key, good.value) == ("k", {"n": 1})
            with pytest.raises(RecordDeserializationError) as refusal:
                await consumer.poll()
            assert (refusal.value.offset, refusal.value.value) == (1, b"broken")
            rest = await poll_until(consumer, 2, consumer.accept)
            assert [(r.offset, r.value) for r in rest] == [(2, {"n": 3}), (3, None)]
            with pytest.raises(RecordDeserializationError, match="value at offset 1"):
                await poll_until(consumer, 1)  # released, and here again
            consumer.acknowledge_offset(topic, 0, 1, AckType.REJECT)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_record_limit_is_exact_over_partitions(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 60, partitions=3)
        sizes, seen = [], Records()
        async with consumer_of(
            broker, topic, group=group, acquire_mode="record_limit", max_poll_records=7
        ) as consumer:
            while len(seen) < 60:
                records = await consumer.poll()
                sizes.append(len(records))
                seen += records
        assert max(sizes) <= 7
        assert numbers(seen) == list(range(60))

    run(scenario)


# --- subscription and membership ------------------------------------------------------------------


def test_changing_the_subscription_keeps_held_records(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        other, _ = await topic_with(broker.bootstrap, 4)
        async with consumer_of(
            broker, topic, group=group, acknowledgement_mode="explicit"
        ) as consumer:
            held = await poll_until(consumer, 3)
            consumer.subscribe(other)
            assert consumer.subscription == (other,)
            consumer.accept(*held)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            records = await poll_until(consumer, 4, consumer.accept)
            assert {record.topic for record in records} == {other}

    run(scenario)


def test_unsubscribing_releases_prefetched_records(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap, batch_size=200) as producer:
            for number in range(60):
                await producer.enqueue(topic, str(number))
        async with (
            consumer_of(broker, topic, group=group, max_poll_records=5) as consumer,
            consumer_of(broker, topic, group=group) as other,
        ):
            accepted = numbers(await poll_until(consumer, 1))
            released = numbers(await consumer.poll())
            await consumer.unsubscribe()
            assert consumer.assignment == []
            rest = await poll_until(other, 60 - len(accepted))
        assert sorted([*accepted, *numbers(rest)]) == list(range(60))
        again = {int(record.value) for record in rest if record.delivery_count == 2}
        assert again >= set(released)

    run(scenario)


@pytest.mark.parametrize("interval_ms", [1, 200], ids=["shorter than a join", "usual"])
def test_a_consumer_that_does_not_poll_leaves_and_rejoins(
    broker: RunningServer, interval_ms: int
) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with (
            consumer_of(broker, topic, group=group, max_poll_interval_ms=interval_ms) as consumer,
            Admin(broker.bootstrap) as admin,
            asyncio.timeout(WAIT_S),
        ):
            while (await admin.describe_share_groups([group]))[group].members:
                continue  # asking takes a round trip: no busy loop
            assert consumer.assignment == []
            await produce(broker.bootstrap, topic, 3)
            if interval_ms > 1:
                assert len(await poll_until(consumer, 3)) == 3

    run(scenario)


def test_an_invalid_topic_is_an_error(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        consumer = consumer_of(broker, topic, "not a topic!", group=group)
        try:
            with pytest.raises(InvalidTopic):
                await poll_until(consumer, 1)
        finally:
            await consumer.close()

    run(scenario)


def test_sixteen_members_in_one_process_drain_evenly(broker: RunningServer) -> None:
    members, each = 16, 15

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0, partitions=4)
        consumers = [
            consumer_of(broker, topic, group=group, acquire_mode="record_limit", max_poll_records=5)
            for _ in range(members)
        ]
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        async with Cluster(broker.bootstrap) as cluster:
            while not all(consumer.assignment for consumer in consumers):
                await cluster.refresh()  # a round trip: no busy loop
        await produce(broker.bootstrap, topic, members * each)
        shares: list[list[Record]] = [[] for _ in consumers]
        while sum(map(len, shares)) < members * each:
            polled = await asyncio.gather(*(one.poll(timeout_ms=500) for one in consumers))
            for share, records in zip(shares, polled, strict=True):
                share += records
        await asyncio.gather(*(consumer.close() for consumer in consumers))
        assert numbers([r for share in shares for r in share]) == list(range(members * each))
        assert min(map(len, shares)) >= each // 5, list(map(len, shares))

    run(scenario)


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_have_kafkas_names_and_count(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 60)
        async with consumer_of(broker, topic, group=group) as consumer:
            assert math.isnan(consumer.metrics()["consumer-share-metrics", "time-between-poll-avg"])
            await poll_until(consumer, 60)
            await consumer.commit()
            found = consumer.metrics()
        assert found[FETCHING, "records-consumed-total"] == 60
        assert found[FETCHING, "bytes-consumed-total"] > 60
        assert found[FETCHING, "acknowledgements-send-total"] == 60
        assert found[FETCHING, "acknowledgements-error-total"] == 0
        assert found[FETCHING, "fetch-latency-max"] >= found[FETCHING, "fetch-latency-avg"] > 0
        assert found["consumer-share-coordinator-metrics", "heartbeat-total"] >= 1
        assert found["consumer-share-coordinator-metrics", "rebalance-total"] == 1
        assert found["consumer-share-metrics", "last-poll-seconds-ago"] < WAIT_S
        assert 0 <= found["consumer-share-metrics", "poll-idle-ratio-avg"] <= 1

    run(scenario)
