"""The share consumer's promises, against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sharegroup.client import AckType, Admin, IllegalState, Record, Records, ShareConsumer
from sharegroup.model.errors import ConfigError, KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from tests.client.working import WAIT_S, fresh, numbers, poll_until, produce, run, topic_with
from tests.servers.running import RunningServer

COUNT = 60
SENT = ("consumer-share-fetch-manager-metrics", "acknowledgements-send-total")
FAILED = ("consumer-share-fetch-manager-metrics", "acknowledgements-error-total")


def consumer_of(broker: RunningServer, topic: str, group: str, **settings: object) -> ShareConsumer:
    return ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        **settings,  # type: ignore[arg-type]
    )


async def lag(broker: RunningServer, group: str) -> int:
    async with Admin(broker.bootstrap) as admin:
        offsets = await admin.list_share_group_offsets(group)
    return sum(one.lag or 0 for one in offsets.values())


async def lag_becomes(broker: RunningServer, group: str, wanted: int) -> None:
    """Apache Kafka's persisted start offset trails by a write."""
    async with asyncio.timeout(WAIT_S):
        while await lag(broker, group) != wanted:  # asking takes a round trip: no busy loop
            continue


def test_iteration_gives_every_record_once_and_accepts_it(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, COUNT, partitions=3)
        seen: list[Record] = []
        async with consumer_of(broker, topic, group) as consumer:
            async for record in consumer:
                seen.append(record)
                if len(seen) == COUNT:
                    assert set((await consumer.commit()).values()) == {None}
                    break
        assert numbers(seen) == list(range(COUNT))
        assert {record.delivery_count for record in seen} == {1}
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_an_exception_in_the_loop_releases_what_was_not_accepted(broker: RunningServer) -> None:
    accepted: list[Record] = []

    async def fail_after_ten(leaving: ShareConsumer) -> None:
        async with leaving as consumer:
            async for record in consumer:
                if len(accepted) == 10:
                    raise ZeroDivisionError
                accepted.append(record)

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, COUNT)
        with pytest.raises(ZeroDivisionError):
            await fail_after_ten(consumer_of(broker, topic, group))
        async with consumer_of(broker, topic, group) as consumer:
            again = await poll_until(consumer, COUNT - 10)
        assert numbers([*accepted, *again]) == list(range(COUNT))
        assert {record.delivery_count for record in again} == {2}

    run(scenario)


def test_the_next_poll_accepts(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, COUNT)
        async with consumer_of(broker, topic, group) as consumer:
            await poll_until(consumer, COUNT)
            assert await consumer.poll(timeout_ms=0) == []
            await lag_becomes(broker, group, 0)

    run(scenario)


def test_closing_without_a_next_poll_accepts_nothing(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group) as consumer:
            await poll_until(consumer, 5)
        async with consumer_of(broker, topic, group) as consumer:
            again = await poll_until(consumer, 5)
        assert [record.delivery_count for record in again] == [2] * 5

    run(scenario)


def test_accept_release_and_reject(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, COUNT)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:

            def said(record: Record) -> None:
                kinds = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT)
                again = record.delivery_count > 1
                consumer.acknowledge(record, AckType.ACCEPT if again else kinds[record.offset % 3])

            records = await poll_until(consumer, COUNT + COUNT // 3, said)
            assert set((await consumer.commit()).values()) == {None}
        again = [record for record in records if record.delivery_count == 2]
        assert [record.offset % 3 for record in again] == [1] * (COUNT // 3)
        await lag_becomes(broker, group, 0)

    run(scenario)


@pytest.mark.parametrize(
    ("note", "words"),
    [
        ({"reason": ValueError("bad job")}, r"write reason=str\(error\)"),
        ({"reason": b"bad job"}, "write reason=a str"),
        ({"delay_ms": 3.5}, "write an int, the milliseconds"),
        ({"delay_ms": True}, "write an int, the milliseconds"),
    ],
)
def test_a_note_of_the_wrong_kind_is_refused_before_anything_is_acknowledged(
    broker: RunningServer, note: dict[str, Any], words: str
) -> None:
    """It was found when it was sent: all acknowledgements of the request were lost with it."""

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 2)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:
            first, second = await poll_until(consumer, 2)
            with pytest.raises(TypeError, match=words):
                consumer.release(first, **note)
            consumer.accept(second)
            assert set((await consumer.commit()).values()) == {None}
            with pytest.raises(IllegalState, match="All records must be acknowledged"):
                await consumer.poll()
            consumer.accept(first)

    run(scenario)


def test_a_list_of_records_is_refused(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 2)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:
            records: Any = await poll_until(consumer, 2)
            for wrong in (records, tuple(records), [], Records(records)):
                for call in (
                    consumer.accept,
                    consumer.reject,
                    consumer.acknowledge,
                    consumer.hand_over,
                ):
                    with pytest.raises(TypeError, match=r"pass its records, by \*records"):
                        call(wrong)
            consumer.accept(*records)

    run(scenario)


def test_explicit_mode_requires_all_records_to_be_acknowledged(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:
            records = await poll_until(consumer, 5)
            with pytest.raises(IllegalState, match="All records must be acknowledged"):
                await consumer.poll()
            for record in records:
                consumer.accept(record)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            with pytest.raises(IllegalState, match="before"):
                consumer.accept(records[0])

    run(scenario)


def test_explicit_closing_sends_the_acknowledged_and_releases_the_rest(
    broker: RunningServer,
) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:
            records = await poll_until(consumer, 5)
            consumer.accept(records[1])
        async with consumer_of(broker, topic, group) as consumer:
            again = await poll_until(consumer, 4)
        assert [record.offset for record in again] == [0, 2, 3, 4]

    run(scenario)


def test_a_renewed_record_is_returned_again_for_its_final_answer(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        async with consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer:
            first, second, third = await poll_until(consumer, 3)
            consumer.accept(first)
            consumer.renew(second)
            consumer.accept(third)
            assert await consumer.poll() == [second]
            assert second.delivery_count == 1
            consumer.accept(second)
            await consumer.commit()
            assert consumer.acquisition_lock_timeout_ms == 30_000
        await lag_becomes(broker, group, 0)

    run(scenario)


def test_record_limit_is_exact(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, COUNT)
        async with consumer_of(
            broker, topic, group, acquire_mode="record_limit", max_poll_records=7
        ) as consumer:
            polled: list[list[Record]] = []
            while sum(map(len, polled)) < COUNT:
                polled.append(await consumer.poll())
        assert max(map(len, polled)) == 7
        assert numbers([record for records in polled for record in records]) == list(range(COUNT))

    run(scenario)


def test_two_consumers_share_one_partition(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        settings = {"acquire_mode": "record_limit", "max_poll_records": 5}
        async with (
            consumer_of(broker, topic, group, **settings) as one,
            consumer_of(broker, topic, group, **settings) as other,
        ):
            await asyncio.gather(one.poll(), other.poll())
            await produce(broker.bootstrap, topic, COUNT)
            shares: list[list[Record]] = [[], []]
            async with asyncio.timeout(WAIT_S):
                while sum(map(len, shares)) < COUNT:
                    shares[0] += await one.poll(timeout_ms=100)
                    shares[1] += await other.poll(timeout_ms=100)
        assert numbers(shares[0] + shares[1]) == list(range(COUNT))
        assert all(shares)

    run(scenario)


def test_the_callback_gets_every_acknowledgement(broker: RunningServer) -> None:
    heard: list[tuple[Mapping[TopicPartition, Sequence[OffsetRange]], KafkaError | None]] = []

    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(
            broker,
            topic,
            group,
            acknowledgement_commit_callback=lambda offsets, error: heard.append((offsets, error)),
        ) as consumer:
            await poll_until(consumer, 5)
            consumer.commit_async()
            async with asyncio.timeout(WAIT_S):
                while not heard:
                    await consumer.poll(timeout_ms=50)
        assert heard == [({TopicPartition(topic, 0): [OffsetRange(0, 4)]}, None)]

    run(scenario)


def test_a_poll_that_is_cancelled_loses_nothing(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with consumer_of(broker, topic, group) as consumer:
            await consumer.poll(timeout_ms=1_500)  # the assignment is there
            waiting = asyncio.create_task(consumer.poll(timeout_ms=10_000))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await produce(broker.bootstrap, topic, 5)
            records = await poll_until(consumer, 5)
            assert [record.delivery_count for record in records] == [1] * 5

    run(scenario)


def test_unsubscribe_releases_and_subscribe_joins_again(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 5)
        async with consumer_of(broker, topic, group) as consumer:
            await poll_until(consumer, 5)
            await consumer.unsubscribe()
            with pytest.raises(IllegalState, match="no topics are subscribed"):
                await consumer.poll()
            consumer.subscribe(topic)
            again = await poll_until(consumer, 5)
            assert [record.delivery_count for record in again] == [2] * 5

    run(scenario)


def test_locks_are_renewed_while_the_application_works(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        async with consumer_of(broker, topic, group, renew_locks=True) as consumer:
            await poll_until(consumer, 3)
            async with asyncio.timeout(WAIT_S):
                while consumer.metrics()[SENT] < 3:  # acknowledgements of the keeper's
                    await lag(broker, group)  # a round trip: no busy loop
            assert consumer.metrics()[FAILED] == 0
            assert set((await consumer.commit()).values()) == {None}

    run(scenario)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"group_id": ""}, "group_id"),
        ({"group_id": "g", "max_poll_records": 0}, "max_poll_records"),
        ({"group_id": "g", "acknowledgement_mode": "auto"}, "acknowledgement_mode"),
        ({"group_id": "g", "acquire_mode": "strict"}, "acquire_mode"),
        ({"group_id": "g", "bootstrap_servers": "x:y"}, "bootstrap_servers"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ShareConsumer("t", **settings)


def test_a_closed_consumer_refuses_calls(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 1)
        consumer = consumer_of(broker, topic, group)
        async with consumer:
            pass
        await consumer.close()
        with pytest.raises(IllegalState, match="closed"):
            await consumer.poll()

    run(scenario)


def test_auto_offset_reset_applies_to_new_groups_only(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 3)
        group = fresh("group")
        for expected in ([0, 1, 2], []):
            async with ShareConsumer(
                topic,
                group_id=group,
                bootstrap_servers=broker.bootstrap,
                auto_offset_reset="earliest",
            ) as consumer:
                records = await poll_until(consumer, 3) if expected else await consumer.poll(500)
                assert [record.offset for record in records] == expected
                await consumer.commit()

    run(scenario)
