"""What every implementation of ``model.store.Store`` must do, whatever it is made of.

A further implementation is a further parameter of the fixture: how it is opened, and how it
crashes. The tests use nothing but the protocols of ``model``. What a store does when its disk fails
is tested beside each implementation, because only that can make it fail.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.environment import Environment
from sharegroup.model.errors import (
    CorruptMessage,
    InvalidPartitions,
    InvalidTopic,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import PartitionLog
from sharegroup.model.store import Configs, Store
from sharegroup.storage import DataFolder, DataFolderSettings, LogSettings
from sharegroup.testing.disks import FolderDisk, MortalDisk, VolatileDisk
from tests.storage.support import OTHER_ID, TOPIC_ID, StillClock, batch, run
from tests.storage.support import read_values as values_of

MESSAGE_BYTES_MAX = "max.message.bytes"
DAY_MS = 24 * 3_600_000


def log_settings(_topic: str, configs: Configs) -> LogSettings:
    """The one topic config that the tests look for in the logs."""
    return LogSettings(max_message_bytes=int(configs.get(MESSAGE_BYTES_MAX, 1_000_000)))


class Folders:
    """Data folders on a disk that may lose its power."""

    def __init__(self, disk: MortalDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    async def open(self) -> Store:
        """The store as the last one left it."""
        environment = Environment(clock=StillClock(), disk=self._disk, entropy=os.urandom)
        settings = DataFolderSettings(log_settings=log_settings)
        return await DataFolder.open(environment, self._path, settings)

    def crash(self) -> None:
        """End the open store without a word to it."""
        dead, self._disk = self._disk, self._disk.die()
        dead.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """A store that ends cleanly."""
        store = await self.open()
        try:
            yield store
        finally:
            await store.close()


@pytest.fixture(params=[FolderDisk, VolatileDisk], ids=["files", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Folders:
    disk: Callable[[], MortalDisk] = request.param
    return Folders(disk(), str(tmp_path / "data"))


async def append(log: PartitionLog, *values: bytes) -> int:
    """Append durably; the first offset."""
    appended = await log.append(batch(*values))
    await log.wait_durable(appended.last_offset + 1)
    return appended.base_offset


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
                assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 0)
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
            await store.delete_topic("a")
            assert changed == ["a"]
            assert "a" not in store.topics
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
            assert log.log_start_offset == 2
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
            assert log.log_end_offset == 1
            assert changed == ["a"]

    run(main())


# Logs ----------------------------------------------------------------------------------------


def test_records_are_read_where_they_were_appended(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 2, {})
            log = store.log("a", 0)
            advanced: list[int] = []
            log.on_advance = lambda moved: advanced.append(moved.high_watermark)
            assert await append(log, b"0", b"1") == 0
            assert await append(log, b"2") == 2
            assert advanced == [2, 3]
            assert (log.log_start_offset, log.log_end_offset) == (0, 3)
            assert log.high_watermark == log.last_stable_offset == 3
            assert await values_of(log) == [(0, b"0"), (1, b"1"), (2, b"2")]
            assert await values_of(log, 1) == [(1, b"1"), (2, b"2")]
            read = await log.read(0, 1 << 20, end_offset=2)
            assert (read.log_start_offset, read.high_watermark) == (0, 3)
            assert len(read.data) < len((await log.read(0, 1 << 20)).data)
            assert (await log.read(3, 1 << 20)).data == b""
            assert await values_of(store.log("a", 1)) == []
            assert store.flush_seconds.count > 0

    run(main())


def test_offsets_outside_the_log_are_refused(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            await append(log, b"0")
            await append(log, b"1")
            assert await log.delete_records(1) == 1
            for offset in (0, 3):
                with pytest.raises(OffsetOutOfRange):
                    await log.read(offset, 1000)
            with pytest.raises(OffsetOutOfRange):
                await log.delete_records(3)
            assert await log.delete_records(-1) == 2

    run(main())


def test_corrupt_batches_are_refused_and_leave_nothing(stores: Folders) -> None:
    async def main() -> None:
        async with stores.opened() as store:
            await store.create_topic("a", TOPIC_ID, 1, {})
            log = store.log("a", 0)
            broken = bytearray(batch(b"value"))
            broken[-1] ^= 1
            with pytest.raises(CorruptMessage):
                await log.append(bytes(broken))
            assert log.log_end_offset == 0

    run(main())


def test_an_internal_log_returns_offsets_at_once(stores: Folders) -> None:
    async def main() -> None:
        store = await stores.open()
        await store.create_topic("__own", TOPIC_ID, 1, {MESSAGE_BYTES_MAX: "100"})
        log = store.internal_log("__own", 0)
        large = b"x" * 500
        assert log.append_trusted(batch(large)).base_offset == 0
        assert log.append_trusted(batch(b"b", b"c")).last_offset == 2
        await log.wait_durable(3)
        stores.crash()
        async with stores.opened() as again:
            assert await values_of(again.log("__own", 0)) == [(0, large), (1, b"b"), (2, b"c")]

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
