"""The folder as a whole: topics, lock, catalog, retention, clean end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import (
    ConfigError,
    InvalidPartitions,
    InvalidTopic,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import topic_id_text
from sharegroup.storage import DataFolderBusy, FlushPolicy, LogSettings
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.support import (
    NOW_MS,
    OTHER_ID,
    TOPIC_ID,
    StillClock,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    read_values,
    run,
)

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=150)


def test_a_folder_in_use_is_refused_with_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            with pytest.raises(DataFolderBusy, match=str(tmp_path)):
                await open_folder(tmp_path)
        async with opened(tmp_path):
            pass

    run(main())


def test_facts_survive(tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path)
        await folder.create_topic("a", TOPIC_ID, 2, {"retention.ms": "5"})
        await folder.create_topic("b-1", OTHER_ID, 1, {})
        await folder.add_partitions("a", 3)
        folder.set_topic_config("b-1", {"segment.bytes": "99"})
        folder.set_group_configs("g", {"share.auto.offset.reset": "earliest"})
        folder.set_broker_configs({"message.max.bytes": "5"})
        ids = [folder.next_producer_id() for _ in range(3)]
        facts = folder.facts
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.facts == facts
            assert facts.cluster_id == "test-cluster"
            assert folder.topics["a"].partitions == 3
            assert folder.topics["b-1"].configs == {"segment.bytes": "99"}
            assert folder.recovered.partitions == 4
            assert folder.next_producer_id() > max(ids)
            assert ids == [0, 1, 2]
            folder.set_group_configs("g", {})
            assert folder.facts.group_configs == {}

    run(main())


def test_kafkas_own_files_are_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"))
        assert (
            f"topic_id: {topic_id_text(TOPIC_ID)}"
            in (tmp_path / "t-0" / "partition.metadata").read_text()
        )
        assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
        assert "cluster.id=test-cluster" in (tmp_path / "meta.properties").read_text()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
        assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 0\n"
        assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == [
            f"{0:020d}.index",
            f"{0:020d}.log",
            f"{0:020d}.timeindex",
            f"{1:020d}.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]

    run(main())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
def test_an_illegal_topic_name_creates_no_folder(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "data") as folder:
            with pytest.raises(InvalidTopic):
                await folder.create_topic(name, TOPIC_ID, 1, {})
        assert os.listdir(tmp_path) == ["data"]

    run(main())


def test_invalid_topics_and_partition_counts_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await one_log(folder)
            with pytest.raises(TopicAlreadyExists):
                await folder.create_topic("t", OTHER_ID, 1, {})
            with pytest.raises(InvalidPartitions):
                await folder.create_topic("u", OTHER_ID, 0, {})
            with pytest.raises(InvalidPartitions):
                await folder.add_partitions("t", 1)
            for call in (folder.add_partitions("u", 2), folder.delete_topic("u")):
                with pytest.raises(UnknownTopicOrPartition):
                    await call
            with pytest.raises(UnknownTopicOrPartition):
                folder.log("t", 1)

    run(main())


def test_calls_during_a_deletion_get_unknown_topic_and_the_name_is_free(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"old"))
            disk.hold = asyncio.Event()
            await log.append(batch(b"more"))
            waiting = asyncio.ensure_future(log.wait_durable(2))
            await asyncio.sleep(0)
            deleting = asyncio.ensure_future(folder.delete_topic("t"))
            with pytest.raises(UnknownTopicOrPartition):
                await waiting
            for call in (log.append(batch(b"x")), log.read(0, 100)):
                with pytest.raises(UnknownTopicOrPartition):
                    await call
            assert not deleting.done()  # a sync still holds the file
            disk.hold.set()
            await deleting
            disk.hold = None
            assert [name for name in os.listdir(tmp_path) if name.startswith("t-")] == []
            await folder.create_topic("t", OTHER_ID, 1, {})
            again = folder.log("t", 0)
            assert (again.log_end_offset, again.topic_id) == (0, OTHER_ID)

    run(main())


def test_an_interrupted_deletion_leaves_no_records_to_a_new_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await append_durably(await one_log(folder), batch(b"old"))
        (tmp_path / "t-0").rename(tmp_path / "saved")
        async with opened(tmp_path) as folder:
            await folder.delete_topic("t")
        (tmp_path / "saved").rename(tmp_path / "t-0")
        (tmp_path / "u-0.0123-delete").mkdir()
        async with opened(tmp_path) as folder:
            assert "belongs to no topic" in folder.recovered.problems[0]
            assert not (tmp_path / "u-0.0123-delete").exists()
            assert (await one_log(folder)).log_end_offset == 0

    run(main())


def test_a_damaged_catalog_is_refused_with_a_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            pass
        (tmp_path / "catalog.json").write_text("{")
        with pytest.raises(ConfigError, match="damaged"):
            await open_folder(tmp_path)
        (tmp_path / "catalog.json").unlink()
        async with opened(tmp_path):  # the refused start has given the lock back
            pass

    run(main())


def test_retention_by_time_deletes_whole_segments_and_finally_all(tmp_path: Path) -> None:
    async def main() -> None:
        clock = StillClock()
        settings = LogSettings(segment_bytes=600, retention_ms=1000)
        async with opened(tmp_path, settings, clock=clock) as folder:
            log = await one_log(folder)
            for number in range(20):
                await append_durably(log, batch(b"v" * 50, timestamp_ms=NOW_MS + 100 * number))
            assert folder.enforce_retention(NOW_MS + 1000) == 0
            assert folder.enforce_retention(NOW_MS + 2000) > 0
            start = log.log_start_offset
            assert 0 < start <= 10
            with pytest.raises(OffsetOutOfRange):
                await log.read(start - 1, 100)
            assert len(await read_values(log)) == 20 - start
            folder.enforce_retention(NOW_MS + 10_000)
            await folder.flusher.idle()
            folder.enforce_retention(NOW_MS + 10_000)
            assert (log.log_start_offset, log.log_end_offset) == (20, 20)
            log.check_invariants()
        async with opened(tmp_path, settings, clock=clock) as folder:
            log = await one_log(folder)
            assert (log.log_start_offset, log.log_end_offset) == (20, 20)

    run(main())


def test_records_without_a_timestamp_age_from_the_last_write_of_their_file(tmp_path: Path) -> None:
    async def main() -> None:
        settings = LogSettings(retention_ms=1000)
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"first", timestamp_ms=-1))
            written_ms = int(os.stat(tmp_path / "t-0" / f"{0:020d}.log").st_mtime * 1000)
            assert folder.enforce_retention(written_ms + 1000) == 0
            assert len(await read_values(log)) == 1
        os.utime(tmp_path / "t-0" / f"{0:020d}.log", (NOW_MS / 1000, NOW_MS / 1000))
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            for now_ms, left in ((NOW_MS + 1000, 1), (NOW_MS + 1001, 0)):
                folder.enforce_retention(now_ms)
                await folder.flusher.idle()
                folder.enforce_retention(now_ms)
                assert len(await read_values(log)) == left
            log.check_invariants()

    run(main())


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("limits", [{"retention_ms": 1000}, {"retention_bytes": 0}], ids=str)
def test_a_segment_that_has_lost_its_data_does_not_stop_retention(
    limits: dict[str, int], lost: int, tmp_path: Path
) -> None:
    async def main() -> None:
        settings = LogSettings(segment_bytes=600, **limits)
        async with opened(tmp_path, settings) as folder:
            await append_durably(await one_log(folder), *(batch(b"v" * 50) for _ in range(20)))
        empty = sorted((tmp_path / "t-0").glob("*.log"))[lost]
        empty.write_bytes(b"")
        os.utime(empty, (NOW_MS / 1000 + 9, NOW_MS / 1000 + 9))
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            for now_ms, start in ((NOW_MS + 10_000, int(empty.stem)), (NOW_MS + 10_001, 20)):
                for _ in range(2):
                    folder.enforce_retention(now_ms)
                    await folder.flusher.idle()
                assert log.log_start_offset == (start if "retention_ms" in limits else 20)
            assert len(log.damages()) == 0
            log.check_invariants()

    run(main())


@pytest.mark.parametrize("policy", list(FlushPolicy))
def test_retention_by_size_keeps_what_fits(policy: FlushPolicy, tmp_path: Path) -> None:
    async def main() -> None:
        settings = LogSettings(segment_bytes=600, retention_bytes=2000, flush_policy=policy)
        async with opened(tmp_path, settings) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v" * 50) for _ in range(60)))
            await folder.flusher.idle()
            assert folder.enforce_retention(NOW_MS) > 0
            assert 2000 <= log.statistics().size_bytes < 2600
            names = os.listdir(tmp_path / "t-0")
            assert len([name for name in names if name.endswith(".log")]) == (
                log.statistics().segments
            )
            log.check_invariants()

    run(main())


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path, SMALL)
        log = await one_log(folder)
        await append_durably(log, *(batch(b"v" * 50) for _ in range(20)))
        assert await log.delete_records(13) == 13
        assert await log.delete_records(4) == 13
        with pytest.raises(OffsetOutOfRange):
            await log.delete_records(21)
        await abandon(folder)
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            assert log.log_start_offset == 13
            assert await log.delete_records(-1) == 20

    run(main())


def test_a_recreated_topic_starts_at_offset_0_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path, SMALL)
        log = await one_log(folder)
        await append_durably(log, *(batch(b"old") for _ in range(9)))
        await log.delete_records(6)
        folder.checkpoint()
        await folder.delete_topic("t")
        await folder.create_topic("t", OTHER_ID, 1, {})
        values = [f"new {number}".encode() for number in range(8)]
        await append_durably(await one_log(folder), *map(batch, values))
        await abandon(folder)
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.problems == []
            assert [value for _, value in await read_values(await one_log(folder))] == values

    run(main())


def test_a_partition_that_could_not_be_opened_keeps_its_log_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v") for _ in range(9)))
            await log.delete_records(6)
        disk = FaultyDisk()
        disk.open_fails = "/t-0/"
        async with opened(tmp_path, disk=disk) as folder:
            await folder.create_topic("u", OTHER_ID, 1, {})
            folder.checkpoint()
        async with opened(tmp_path) as folder:
            assert (await one_log(folder)).log_start_offset == 6

    run(main())


def test_a_partition_that_cannot_be_opened_does_not_affect_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await folder.create_topic("t", TOPIC_ID, 2, {})
            await append_durably(folder.log("t", 0), batch(b"a"))
            await append_durably(folder.log("t", 1), batch(b"b"))

        disk = FaultyDisk()
        disk.open_fails = "/t-0/"
        async with opened(tmp_path, disk=disk) as folder:
            with pytest.raises(KafkaStorageError, match="Input/output error"):
                folder.log("t", 0)
            assert await read_values(folder.log("t", 1)) == [(0, b"b")]

    run(main())


def test_calls_after_close_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
        with pytest.raises(NotLeaderOrFollower):
            await log.append(batch(b"x"))

    run(main())


def test_topic_ids_are_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await one_log(folder)
        async with opened(tmp_path) as folder:
            assert folder.log("t", 0).topic_id == UUID(int=7)

    run(main())


def test_nothing_is_appended_once_the_folder_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await log.append(batch(b"a"))
            await folder.stop_appending()
            assert log.high_watermark == 1
            with pytest.raises(NotLeaderOrFollower):
                await log.append(batch(b"b"))
            with pytest.raises(NotLeaderOrFollower):
                log.append_trusted(batch(b"b"))
            assert log.log_end_offset == 1

    run(main())
