"""What is short for a while refuses one call, and nothing else: descriptors, threads, room."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sharegroup.model.errors import KafkaStorageError, UnknownTopicOrPartition
from sharegroup.storage import LogSettings, checkpoints
from sharegroup.storage.failures import EPISODE_MS, Lack, lack_of
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.lacks import BusyDisk, FullDisk, no_descriptors
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


@pytest.mark.parametrize(
    ("number", "lack"),
    [
        (errno.ENOSPC, Lack.ROOM),
        (errno.EDQUOT, Lack.ROOM),
        (errno.EFBIG, Lack.ROOM),
        (errno.EMFILE, Lack.DESCRIPTORS),
        (errno.ENFILE, Lack.DESCRIPTORS),
        (errno.ENOMEM, Lack.MEMORY),
        (errno.ENOBUFS, Lack.MEMORY),
        (errno.EAGAIN, Lack.MEMORY),
        (errno.EINTR, Lack.MEMORY),
        (errno.EIO, None),
        (errno.EROFS, None),
        (errno.ESTALE, None),
        (errno.ENOENT, None),
    ],
)
def test_errors_are_classified(number: int, lack: Lack | None, tmp_path: Path) -> None:
    assert lack_of(OSError(number, os.strerror(number))) is lack

    async def main() -> None:
        disk = FaultyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"a"))
            disk.append_errno = disk.read_errno = number
            with pytest.raises(KafkaStorageError):
                await log.append(batch(b"b"))
            with pytest.raises(KafkaStorageError):
                await log.read(0, 100)
            disk.append_errno = disk.read_errno = 0
            assert (log.failure is None) == (lack is not None)
            if lack is not None:
                assert folder.failures.refused == {lack: 2}
                await append_durably(log, batch(b"c"))
                assert await read_values(log) == [(0, b"a"), (1, b"c")]

    run(main())


def test_a_roll_without_descriptors_is_refused_and_done_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            values = [b"v%d" % number * 20 for number in range(40)]
            refused = 0
            for number, value in enumerate(values):
                if number % 3 == 1:
                    for some in range(5):  # at each of the files of a roll
                        before = sorted(os.listdir(tmp_path / "t-0"))
                        try:
                            with no_descriptors(some):
                                await log.append(batch(value))
                        except KafkaStorageError:
                            refused += 1
                            assert sorted(os.listdir(tmp_path / "t-0")) == before
                            continue
                        break
                    else:
                        await log.append(batch(value))
                else:
                    await log.append(batch(value))
                await log.wait_durable(log.log_end_offset)
            assert log.statistics().segments > 3
            assert [value for _, value in await read_values(log)] == values
            log.check_invariants()
        async with opened(tmp_path, SMALL) as folder:
            assert folder.recovered.problems == []
            assert [value for _, value in await read_values(await one_log(folder))] == values

    run(main())


def test_without_descriptors_synced_files_give_theirs_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"x" * 100) for _ in range(3)))
            await log.append(batch(b"x" * 500))  # begins a segment, whose folder is to be synced
            assert log.statistics().segments > 1
            with no_descriptors():
                await log.wait_durable(4)
            assert len(await read_values(log)) == 4

    run(main())


async def until(holds: Callable[[], bool]) -> None:
    """Let others have turns until it is so."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_a_sync_that_cannot_begin_is_retried_and_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        disk = BusyDisk()
        async with opened(tmp_path, SMALL, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"x" * 100))
            disk.busy = True
            for _ in range(9):
                await log.append(batch(b"x" * 200))
            waiting = asyncio.ensure_future(log.wait_durable(10))
            await until(lambda: folder.failures.refused[Lack.DESCRIPTORS] > 2)
            await log.append(batch(b"x" * 200))
            assert (log.failure, log.high_watermark, waiting.done()) == (None, 1, False)
            disk.synced.clear()
            disk.busy = False
            await waiting
            await folder.flusher.idle()
            assert (log.failure, log.high_watermark) == (None, 11)
            logs = {name for name in os.listdir(tmp_path / "t-0") if name.endswith(".log")}
            synced = {os.path.basename(path) for paths in disk.synced for path in paths}
            assert len(logs) > 3
            assert logs <= synced

    run(main())


def test_a_topic_can_be_deleted_while_its_sync_cannot_begin(tmp_path: Path) -> None:
    async def main() -> None:
        disk = BusyDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            disk.busy = True
            disk.synced.clear()
            await log.append(batch(b"x"))
            await until(lambda: folder.failures.refused[Lack.DESCRIPTORS] > 0)
            await folder.delete_topic("t")
            disk.busy = False
            await folder.flusher.idle()
            assert disk.synced == []

    run(main())


def test_a_shutdown_while_a_sync_cannot_begin_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharegroup.storage.flush.PATIENCE_S", 0.3)

    async def main() -> None:
        disk = BusyDisk()
        folder = await open_folder(tmp_path, SMALL, disk=disk)
        log = await one_log(folder)
        disk.busy = True
        await log.append(batch(b"x" * 500))
        await folder.close()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        async with opened(tmp_path, SMALL) as folder:
            assert (await one_log(folder)).log_end_offset == 1

    run(main())


def test_each_lack_is_logged_once_per_episode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> int:
        return sum("lack of room" in record.getMessage() for record in caplog.records)

    async def main() -> None:
        disk, clock = FaultyDisk(), StillClock()
        async with opened(tmp_path, disk=disk, clock=clock) as folder:
            log = await one_log(folder)
            disk.append_errno = errno.ENOSPC
            for step_ms, times in ((1_000, 1), (EPISODE_MS - 1, 1), (EPISODE_MS, 2)):
                clock.now_ms += step_ms
                for _ in range(20):
                    with pytest.raises(KafkaStorageError):
                        await log.append(batch(b"b"))
                assert said() == times
            assert folder.failures.refused[Lack.ROOM] == 60
            disk.append_errno = 0

    run(main())


def test_a_full_disk_changes_no_facts_and_no_log_start(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v") for _ in range(9)))
            facts = folder.facts
            disk.remove(f"{tmp_path}/.reserve")
            disk.room_for, disk.full = 0, True
            for call in (
                lambda: folder.set_group_configs("g", {"share.auto.offset.reset": "earliest"}),
                lambda: folder.set_broker_configs({"message.max.bytes": "5"}),
                lambda: folder.set_topic_config("t", {"segment.bytes": "99"}),
                folder.next_producer_id,
            ):
                with pytest.raises(KafkaStorageError, match="No space"):
                    call()
            for change in (
                folder.create_topic("u", OTHER_ID, 2, {}),
                folder.add_partitions("t", 3),
                folder.delete_topic("t"),
                log.delete_records(5),
            ):
                with pytest.raises(KafkaStorageError, match="No space"):
                    await change
            assert (folder.facts, log.log_start_offset, log.failure) == (facts, 0, None)
            assert folder.enforce_retention(NOW_MS) == 0
            assert not folder.checkpoint()
            disk.full = False
            assert await log.delete_records(5) == 5
            assert folder.checkpoint()
            await folder.create_topic("u", OTHER_ID, 2, {})
            assert folder.next_producer_id() == 0

    run(main())


class _RoomForChecksums(FullDisk):
    """A full disk with room for the few bytes of a checkpoint's checksum."""

    def check(self, path: str) -> None:
        if not path.endswith(checkpoints.CHECKSUMS):
            super().check(path)


def test_a_checkpoint_that_cannot_be_replaced_stays_valid(tmp_path: Path) -> None:
    """Its checksum is replaced each time, also by a retry."""

    async def main() -> None:
        disk = _RoomForChecksums()
        folder = await open_folder(tmp_path, disk=disk)
        log = await one_log(folder)
        await append_durably(log, batch(b"a"))
        assert folder.checkpoint()
        disk.remove(f"{tmp_path}/.reserve")
        disk.full, disk.room_for, disk.where = True, 0, checkpoints.RECOVERY_POINTS
        before = (tmp_path / checkpoints.RECOVERY_POINTS).read_bytes()
        for value in (b"b", b"c"):
            await append_durably(log, batch(value))
            assert not folder.checkpoint()
        assert (tmp_path / checkpoints.RECOVERY_POINTS).read_bytes() == before
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            log = await one_log(folder)
            assert await read_values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []

    run(main())


def test_a_full_disk_refuses_to_give_up_offsets(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            disk.remove(f"{tmp_path}/.reserve")
            disk.room_for, disk.full = 0, True
            with pytest.raises(KafkaStorageError, match="share groups have seen: No space"):
                await folder.give_up_offsets({log.topic_partition: 9})

    run(main())


def test_a_full_disk_lets_topics_and_records_be_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        async with opened(tmp_path, disk=disk) as folder:
            log = await one_log(folder)
            await folder.create_topic("u", OTHER_ID, 2, {})
            await append_durably(log, *(batch(b"v") for _ in range(9)))
            disk.full = True
            await folder.delete_topic("u")
            assert not (tmp_path / "u-0").exists()
            disk.full = False
            await folder.remove_leftovers()  # keeps room again
            disk.full = True
            assert await log.delete_records(5) == 5
            await abandon(folder)
        async with opened(tmp_path) as folder:
            assert list(folder.topics) == ["t"]
            assert (await one_log(folder)).log_start_offset == 5

    run(main())


@pytest.mark.parametrize("where", ["/u-1/", "/u-0/leader-epoch"])
def test_a_topic_that_could_not_be_created_does_not_exist(where: str, tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        folder = await open_folder(tmp_path, disk=disk)
        await one_log(folder)
        names = sorted(os.listdir(tmp_path))
        disk.full, disk.where = True, where
        with pytest.raises(KafkaStorageError, match=r"creating u.*No space"):
            await folder.create_topic("u", OTHER_ID, 3, {})
        assert sorted(os.listdir(tmp_path)) == names
        assert list(folder.topics) == ["t"]
        for partition in range(3):
            with pytest.raises(UnknownTopicOrPartition):
                folder.log("u", partition)
        disk.full = False
        await folder.create_topic("u", TOPIC_ID, 3, {})
        await append_durably(folder.log("u", 2), batch(b"now"))
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            assert folder.topics["u"].partitions == 3

    run(main())


@pytest.mark.parametrize("crash", [True, False])
def test_an_undone_creation_is_written_when_there_is_room(crash: bool, tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        folder = await open_folder(tmp_path, disk=disk)
        await one_log(folder)
        disk.remove(f"{tmp_path}/.reserve")
        disk.room_for, disk.full = 1, True  # for the catalog with the topic, and no more
        with pytest.raises(KafkaStorageError):
            await folder.create_topic("u", OTHER_ID, 3, {})
        assert list(folder.topics) == list(folder.facts.topics) == ["t"]
        disk.full = False
        if not crash:
            await folder.remove_leftovers()
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            assert sorted(folder.topics) == (["t", "u"] if crash else ["t"])

    run(main())


def test_partitions_that_could_not_be_created_do_not_exist(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FullDisk()
        folder = await open_folder(tmp_path, disk=disk)
        log = await one_log(folder)
        await append_durably(log, batch(b"kept"))
        disk.full, disk.where = True, "/t-2/"
        with pytest.raises(KafkaStorageError, match="No space"):
            await folder.add_partitions("t", 4)
        assert folder.topics["t"].partitions == 1
        assert not (tmp_path / "t-1").exists()
        disk.full = False
        await folder.add_partitions("t", 2)
        await append_durably(folder.log("t", 1), batch(b"new"))
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            assert await read_values(folder.log("t", 0)) == [(0, b"kept")]
            assert await read_values(folder.log("t", 1)) == [(0, b"new")]

    run(main())


@pytest.mark.parametrize("spare", range(6))
def test_a_topic_without_descriptors_is_undone_as_a_whole(spare: int, tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path)
        await one_log(folder)
        made = True
        try:
            with no_descriptors(spare):
                await folder.create_topic("u", OTHER_ID, 40, {})
        except KafkaStorageError:
            made = False
        assert ("u" in folder.topics) is made
        if not made:
            await folder.create_topic("u", OTHER_ID, 40, {})
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            assert sum(1 for _ in folder.logs) == 41
            assert [name for name in os.listdir(tmp_path) if "." in name[1:] and "u-" in name] == []

    run(main())


def test_a_deletion_without_descriptors_is_finished_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await folder.create_topic("u", OTHER_ID, 4, {})
            for log in list(folder.logs):
                await append_durably(log, batch(b"v"))
            with no_descriptors(1):  # the catalog can be written, a folder not be looked into
                await folder.delete_topic("u")
            assert "u" not in folder.topics
            await folder.remove_leftovers()
            assert [name for name in os.listdir(tmp_path) if name.startswith("u-")] == []

    run(main())


def test_a_start_without_descriptors_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            await append_durably(await one_log(folder), batch(b"a"))
        for spare in range(5):
            with no_descriptors(spare), suppress(OSError):
                await (await open_folder(tmp_path)).close()
        async with opened(tmp_path) as folder:
            assert await read_values(await one_log(folder)) == [(0, b"a")]

    run(main())


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_on_a_full_disk_lets_topics_be_deleted(clean: bool, tmp_path: Path) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path)
        await folder.create_topic("u", OTHER_ID, 2, {})
        await append_durably(await one_log(folder), batch(b"kept"))
        await (folder.close() if clean else abandon(folder))
        disk = FullDisk()
        disk.full = True
        async with opened(tmp_path, disk=disk) as folder:
            disk.full = False
            folder._fill_reserve()  # what the start has spent was there all the time, say
            disk.full = True
            await folder.delete_topic("u")
            assert list(folder.topics) == ["t"]
            disk.full = False
            assert await append_durably(await one_log(folder), batch(b"more")) == 2
        async with opened(tmp_path) as folder:
            assert await read_values(await one_log(folder)) == [(0, b"kept"), (1, b"more")]

    run(main())
