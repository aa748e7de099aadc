"""What every implementation of ``model.store.Store`` must do, whatever it is made of.

A further implementation is a further parameter of the fixtures: how it is opened, and how it
crashes. Tests of what only a log in this process can do have ``local_stores``; all others also run
with logs that are as if in another cluster (``late_store``). The tests use nothing but the
protocols of ``model``. What a store does when its disk fails is tested beside each implementation,
because only that can make it fail.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.model.errors import (
    InvalidPartitions,
    InvalidTopic,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition
from tests.storage.implementations import MESSAGE_BYTES_MAX, Folders, append
from tests.storage.support import OTHER_ID, TOPIC_ID, StillClock, batch, run
from tests.storage.support import read_values as values_of

DAY_MS = 24 * 3_600_000


# Topics --------------------------------------------------------------------------------------


def test_a_created_topic_exists_and_is_empty(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            assert (dict(store.topics), list(store.logs), store.partition_count) == ({}, [], 0)
            changed: list[str] = []
            store.on_topic_changed = changed.append
            await store.create_topic("a", TOPIC_ID, 2, {MESSAGE_BYTES_MAX: "99"})
            assert changed == ["a"]
            facts = store.topics["a"]
            assert facts.topic_id == TOPIC_ID
            assert facts.partitions == store.partition_count == 2
            assert facts.configs == {MESSAGE_BYTES_MAX: "99"}
            assert store.facts.topics == store.topics
            assert [log.topic_partition for log in store.logs_of("a")] == [("a", 0), ("a", 1)]
            assert len(list(store.logs)) == 2
            for log in store.logs:
                assert log.topic_id == TOPIC_ID
                assert log.failure is None
                assert await log.offsets() == (0, 0, 0, 0)
            assert store.out_of_service() == []

    run(main())


def test_an_invalid_creation_is_refused_and_changes_nothing(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 2, {})
            changed: list[str] = []
            store.on_topic_changed = changed.append
            before = store.facts
            with pytest.raises(TopicAlreadyExists):
                await store.create_topic("a", OTHER_ID, 1, {})
            for name in ("", ".", "..", "a/b", "ä", "x" * 250):
                with pytest.raises(InvalidTopic):
                    await store.create_topic(name, OTHER_ID, 1, {})
            with pytest.raises(InvalidPartitions):
                await store.create_topic("b", OTHER_ID, 0, {})
            for partitions in (1, 2):
                with pytest.raises(InvalidPartitions):
                    await store.add_partitions("a", partitions)
            assert store.facts == before
            assert changed == []

    run(main())


def test_unknown_topics_and_partitions_are_refused(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            for topic, partition in (("b", 0), ("a", 1)):
                for find in (store.log, store.internal_log):
                    with pytest.raises(UnknownTopicOrPartition):
                        find(topic, partition)
                assert store.find_log(TopicPartition(topic, partition)) is None
            with pytest.raises(UnknownTopicOrPartition):
                await store.add_partitions("b", 2)
            with pytest.raises(UnknownTopicOrPartition):
                await store.delete_topic("b")
            with pytest.raises(UnknownTopicOrPartition):
                store.set_topic_config("b", {})

    run(main())


def test_a_grown_topic_keeps_its_records(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            await append(store.log("a", 0), b"kept")
            changed: list[str] = []
            store.on_topic_changed = changed.append
            await store.add_partitions("a", 3)
            assert changed == ["a"]
            assert store.topics["a"].partitions == store.partition_count == 3
            assert store.topics["a"].topic_id == TOPIC_ID
            assert await values_of(store.log("a", 0)) == [(0, b"kept")]
            assert await append(store.log("a", 2), b"new") == 0

    run(main())


def test_a_deleted_topic_ends_its_logs_and_frees_its_name(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            old = store.log("a", 0)
            await append(old, b"old")
            changed: list[str] = []
            store.on_topic_changed = changed.append
            assert await store.gone({TOPIC_ID: "a"}) == set()
            await store.delete_topic("a")
            assert changed == ["a"]
            assert "a" not in store.topics
            assert await store.gone({TOPIC_ID: "a"}) == {TOPIC_ID}
            assert store.partition_count == 0
            with pytest.raises(UnknownTopicOrPartition):
                store.log("a", 0)
            with pytest.raises(UnknownTopicOrPartition):
                await old.append(batch(b"late"))
            with pytest.raises(UnknownTopicOrPartition):
                await old.read(0, 1000)
            assert isinstance(old.failure, UnknownTopicOrPartition)
            await store.create_topic("a", OTHER_ID, 1, {})
            assert store.log("a", 0).topic_id == OTHER_ID
            assert await store.gone({TOPIC_ID: "a", OTHER_ID: "a"}) == {TOPIC_ID}
            assert await values_of(store.log("a", 0)) == []

    run(main())


# Durability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "crashed"])
def test_every_answered_change_survives_a_close(stores: Folders, clean: bool) -> None:
    async def main() -> None:
        store = await stores.open()
        await store.create_topic("a", TOPIC_ID, 1, {})
        await store.create_topic("gone", OTHER_ID, 1, {})
        await store.add_partitions("a", 2)
        store.set_topic_config("a", {MESSAGE_BYTES_MAX: "500"})
        await store.delete_topic("gone")
        store.set_group_configs("g", {"share.auto.offset.reset": "earliest"})
        store.set_broker_configs({"num.partitions": "5"})
        store.set_cluster_configs({"num.partitions": "6"})
        await append(store.log("a", 1), b"one", b"two")
        before = store.facts
        given = {store.next_producer_id() for _ in range(3)}
        if clean:
            await store.close()
        else:
            stores.crash()
        async with stores.opened() as again:
            after = again.facts
            assert after.cluster_id == before.cluster_id
            assert after.topics == before.topics == again.topics
            assert again.topics["a"].partitions == 2
            assert again.topics["a"].configs == {MESSAGE_BYTES_MAX: "500"}
            assert after.group_configs == {"g": {"share.auto.offset.reset": "earliest"}}
            assert after.broker_configs == {"num.partitions": "5"}
            assert after.cluster_configs == {"num.partitions": "6"}
            assert await values_of(again.log("a", 1)) == [(0, b"one"), (1, b"two")]
            assert len(given) == 3
            assert again.next_producer_id() not in given

    run(main())


def test_a_deleted_log_start_is_kept(stores: Folders) -> None:
    async def main() -> None:
        store = await stores.open()
        await store.create_topic("a", TOPIC_ID, 1, {})
        for value in (b"0", b"1", b"2"):
            await append(store.log("a", 0), value)
        assert await store.log("a", 0).delete_records(2) == 2
        stores.crash()
        async with stores.opened() as again:
            log = again.log("a", 0)
            assert (await log.offsets()).start == log.log_start_offset == 2
            assert await values_of(log) == [(2, b"2")]

    run(main())


def test_given_up_offsets_are_not_used_again(stores: Folders) -> None:
    async def main() -> None:
        store = await stores.open()
        await store.create_topic("a", TOPIC_ID, 2, {})
        for partition in range(2):
            await append(store.log("a", partition), b"0", b"1")
        await store.close()
        store = await stores.open()
        await store.give_up_offsets(
            {TopicPartition("a", 0): 9, TopicPartition("a", 1): 1, TopicPartition("b", 0): 5}
        )
        stores.crash()
        async with stores.opened() as again:
            assert await append(again.log("a", 0), b"next") == 9
            assert await append(again.log("a", 1), b"next") == 2

    run(main())


# Configs -------------------------------------------------------------------------------------


def test_configs_are_replaced_whole(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {"retention.ms": "5"})
            store.set_topic_config("a", {"segment.ms": "6"})
            assert store.topics["a"].configs == {"segment.ms": "6"}
            store.set_group_configs("g", {"x": "1"})
            store.set_group_configs("h", {"y": "2"})
            store.set_group_configs("g", {"z": "3"})
            assert store.facts.group_configs == {"g": {"z": "3"}, "h": {"y": "2"}}
            store.set_group_configs("g", {})
            assert store.facts.group_configs == {"h": {"y": "2"}}
            store.set_broker_configs({"p": "1"})
            store.set_broker_configs({"q": "2"})
            assert store.facts.broker_configs == {"q": "2"}
            store.set_cluster_configs({"p": "3"})
            store.set_cluster_configs({"q": "4"})
            assert store.facts.cluster_configs == {"q": "4"}
            assert store.facts.broker_configs == {"q": "2"}

    run(main())


def test_topic_configs_apply_to_the_logs(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            await append(log, b"x" * 2000)
            changed: list[str] = []
            store.on_topic_changed = changed.append
            store.set_topic_config("a", {MESSAGE_BYTES_MAX: "1000"})
            with pytest.raises(MessageTooLarge):
                await log.append(batch(b"x" * 2000))
            assert (await log.offsets()).end == 1
            assert changed == ["a"]

    run(main())


# Housekeeping and the end --------------------------------------------------------------------


def test_retention_deletes_only_expired_segments(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            now_ms = StillClock().wall_ms()
            await log.append(batch(b"old", timestamp_ms=now_ms - 8 * DAY_MS))
            removed = store.enforce_retention(now_ms)
            await append(log, b"young")
            removed += store.enforce_retention(now_ms)
            removed += store.enforce_retention(now_ms)
            await store.remove_leftovers()
            assert removed == 1
            assert await values_of(log) == [(1, b"young")]
            with pytest.raises(OffsetOutOfRange):
                await log.read(0, 1000)
            assert set(store.refusals().values()) == {0}

    run(main())


def test_a_closed_store_refuses_calls(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
        with pytest.raises(NotLeaderOrFollower):
            await log.append(batch(b"late"))
        with pytest.raises(NotLeaderOrFollower):
            await store.create_topic("b", UUID(int=5), 1, {})

    run(main())
