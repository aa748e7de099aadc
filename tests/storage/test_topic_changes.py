"""Topics made, grown and deleted: off the loop, side by side, and cut short anywhere."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from sharegroup.model.errors import (
    InvalidPartitions,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.sim import MemoryDisk
from sharegroup.storage import DataFolder, catalog
from sharegroup.storage.disk import LocalDisk
from sharegroup.storage.partition_folders import SLICE, slices
from sharegroup.testing.disks import VolatileDisk
from tests.storage.support import (
    OTHER_ID,
    TOPIC_ID,
    abandon,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    read_values,
    run,
)

MANY = 3 * SLICE + 5


def check_whole(folder: DataFolder) -> None:
    """What there is can be used, and nothing else is there."""
    keys = {f"{name}-{n}" for name, topic in folder.topics.items() for n in range(topic.partitions)}
    assert {str(log.topic_partition) for log in folder.logs} == keys
    assert folder.facts.topics == folder.topics
    names = folder._disk.list(folder.path)
    assert {name for name in names if "-" in name and "checkpoint" not in name} == keys


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1])
def test_slices_keep_all_items_in_order(count: int) -> None:
    parts = slices(range(count))
    assert [item for part in parts for item in part] == list(range(count))
    assert all(0 < len(part) <= SLICE for part in parts)


def test_other_tasks_run_while_a_topic_is_created_and_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            for change in (
                lambda: folder.create_topic("big", TOPIC_ID, MANY, {}),
                lambda: folder.add_partitions("big", 2 * MANY),
                lambda: folder.delete_topic("big"),
            ):
                task = asyncio.ensure_future(change())
                seen = set()
                while not task.done():
                    seen.add(len(os.listdir(tmp_path)))
                    assert folder.topics.keys() <= {"big"}
                    for name, topic in folder.topics.items():
                        assert folder.log(name, topic.partitions - 1).failure is None
                    await asyncio.sleep(0)
                await task
                assert len(seen) > MANY // SLICE  # the folders came and went in between
            check_whole(folder)

    run(main())


def test_a_topic_is_visible_when_all_partitions_are_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as folder:
            changed: list[str] = []
            folder.on_topic_changed = changed.append
            making = asyncio.ensure_future(folder.create_topic("big", TOPIC_ID, MANY, {}))
            await asyncio.sleep(0)
            assert "big" in folder.facts.topics
            assert "big" not in folder.topics
            assert folder.partition_count == MANY
            with pytest.raises(UnknownTopicOrPartition):
                folder.log("big", 0)
            for call in (folder.add_partitions("small", 3), folder.delete_topic("small")):
                with pytest.raises(UnknownTopicOrPartition):
                    await call
            await folder.create_topic("small", OTHER_ID, 1, {})  # does not wait for the big one
            assert not making.done()
            with pytest.raises(TopicAlreadyExists):
                await folder.create_topic("big", OTHER_ID, 1, {})
            assert making.done()
            growing = asyncio.ensure_future(folder.add_partitions("big", 2 * MANY))
            await asyncio.sleep(0)
            assert folder.topics["big"].partitions == MANY
            folder.set_topic_config("big", {"retention.ms": "5"})
            assert folder.topics["big"].partitions == MANY
            await growing
            assert folder.topics["big"].partitions == 2 * MANY
            assert folder.topics["big"].configs == {"retention.ms": "5"}
            assert changed[:2] == ["small", "big"]
            check_whole(folder)

    run(main())


def test_changes_of_the_same_topic_wait_for_each_other(tmp_path: Path) -> None:
    async def change(folder: DataFolder, order: random.Random) -> None:
        name = order.choice("abc")
        try:
            match order.randrange(3):
                case 0:
                    await folder.create_topic(name, uuid4(), order.randrange(1, 2 * SLICE), {})
                case 1:
                    await folder.add_partitions(name, order.randrange(1, 3 * SLICE))
                case _:
                    await folder.delete_topic(name)
        except (TopicAlreadyExists, UnknownTopicOrPartition, InvalidPartitions):
            return
        for log in list(folder.logs):
            if log.topic_partition.topic == name:
                await log.append(batch(b"x"))

    async def main() -> None:
        order = random.Random(7)
        folder = await open_folder(tmp_path)
        for _ in range(6):
            results = await asyncio.gather(
                *(change(folder, order) for _ in range(12)), return_exceptions=True
            )
            assert [r for r in results if isinstance(r, Exception) and not gone(r)] == []
            check_whole(folder)
        facts = folder.facts
        await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            assert folder.facts.topics == facts.topics
            check_whole(folder)

    run(main())


def gone(error: BaseException) -> bool:
    """What a client gets whose topic is deleted meanwhile."""
    return isinstance(error, UnknownTopicOrPartition)


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 80])
@pytest.mark.parametrize("kind", ["create", "grow", "delete"])
def test_a_change_interrupted_by_a_stop_is_finished_at_the_next_start(
    kind: str, turns: int, tmp_path: Path
) -> None:
    async def main() -> None:
        folder = await open_folder(tmp_path)
        if kind != "create":
            await folder.create_topic("big", TOPIC_ID, MANY, {})
        changes = {
            "create": lambda: folder.create_topic("big", TOPIC_ID, MANY, {}),
            "grow": lambda: folder.add_partitions("big", 2 * MANY),
            "delete": lambda: folder.delete_topic("big"),
        }
        task = asyncio.ensure_future(changes[kind]())
        for _ in range(turns):
            await asyncio.sleep(0)
        await folder.close()
        done = await asyncio.gather(task, return_exceptions=True)
        assert done == [None] or isinstance(done[0], NotLeaderOrFollower | OSError | KafkaError)
        async with opened(tmp_path) as folder:
            assert folder.recovered.problems == []
            check_whole(folder)
            await folder.create_topic("other", OTHER_ID, 1, {})

    run(main())


class StuckDisk(LocalDisk):
    """While ``stuck``, no folder can be renamed or removed."""

    stuck = False

    def _check(self, path: str) -> None:
        if self.stuck:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        some = list(pairs)
        for old, _ in some:
            self._check(old)
        super().rename_all(some)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)


class _UnsyncedFolderDisk(LocalDisk):
    """A disk that has replaced a catalog, but ``fails`` times cannot sync the folder."""

    fails = 0

    def write_file(self, path: str, data: bytes) -> None:
        super().write_file(path, data)
        if self.fails and path.endswith(catalog.FILE_NAME):
            self.fails -= 1
            raise OSError(errno.EIO, "the folder cannot be synced", path)


@pytest.mark.parametrize("fails", [1, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_a_topic_whose_deletion_failed_keeps_its_records(
    fails: int, clean: bool, tmp_path: Path
) -> None:
    """The catalog on the disk says that it is deleted, until it is written again."""

    async def main() -> None:
        disk = _UnsyncedFolderDisk()
        folder = await open_folder(tmp_path, disk=disk)
        log = await one_log(folder)
        await append_durably(log, batch(b"before"))
        disk.fails = fails
        with pytest.raises(KafkaStorageError):
            await folder.delete_topic("t")
        await append_durably(log, batch(b"after"))
        if clean:
            await folder.close()
        else:
            await folder.remove_leftovers()
            await abandon(folder)
        async with opened(tmp_path) as folder:
            assert folder.recovered.clean == clean
            assert await read_values(await one_log(folder)) == [(0, b"before"), (1, b"after")]

    run(main())


def test_a_refused_deletion_is_undone_on_the_disk_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        disk = _UnsyncedFolderDisk()
        folder = await open_folder(tmp_path, disk=disk)
        await one_log(folder)
        before = (tmp_path / catalog.FILE_NAME).read_bytes()
        disk.fails = 1
        with pytest.raises(KafkaStorageError):
            await folder.delete_topic("t")
        assert (tmp_path / catalog.FILE_NAME).read_bytes() == before
        await folder.close()

    run(main())


def test_a_folder_that_could_not_be_removed_may_have_a_new_topic_later(tmp_path: Path) -> None:
    """The name of the folder is that of the new topic's folder: what was to be removed is not that
    one."""

    async def main() -> None:
        disk = StuckDisk()
        async with opened(tmp_path, disk=disk) as folder:
            await folder.create_topic("a", TOPIC_ID, 1, {})
            disk.stuck = True
            await folder.delete_topic("a")
            disk.stuck = False
            await folder.create_topic("a", OTHER_ID, 1, {})
            await append_durably(folder.log("a", 0), batch(b"new"))
            await folder.remove_leftovers()
        async with opened(tmp_path) as folder:
            assert (await folder.log("a", 0).offsets()).end == 1

    run(main())


class CountedDisk(VolatileDisk):
    """Loses power at the n-th change of a folder."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.left = changes
        self.survivor: MemoryDisk | None = None

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.survivor = self.die()

    def write_file(self, path: str, data: bytes) -> None:
        super().write_file(path, data)
        self._count()

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        self._count()

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._count()

    def remove(self, path: str) -> None:
        super().remove(path)
        self._count()


@pytest.mark.parametrize("changes", range(1, 34))
def test_a_power_failure_during_any_change_leaves_a_sound_folder(changes: int) -> None:
    async def main() -> None:
        disk = CountedDisk(changes)
        folder = await open_folder(Path("data"), disk=disk)
        await folder.create_topic("a", TOPIC_ID, 3, {})
        for log in list(folder.logs):
            await append_durably(log, batch(b"x"))
        await folder.add_partitions("a", 5)
        await folder.delete_topic("a")
        await folder.create_topic("a", OTHER_ID, 2, {})
        survivor = disk.survivor or disk.die()
        await abandon(folder)
        async with opened(Path("data"), disk=survivor) as folder:
            assert folder.recovered.problems == []
            check_whole(folder)
            assert folder.topics.keys() <= {"a"}
            for log in folder.logs:
                known = TOPIC_ID if log.topic_id == TOPIC_ID else OTHER_ID
                assert log.topic_id == known
                assert log.log_end_offset <= (known == TOPIC_ID)

    run(main())


CHANGER = """
import asyncio, sys
from pathlib import Path
from uuid import UUID
from tests.storage.support import open_folder, append_durably, batch

async def main():
    folder = await open_folder(Path(sys.argv[1]))
    for name in list(folder.topics):
        await folder.delete_topic(name)
    for number in range(1000):
        await folder.create_topic("big", UUID(int=number + 1), 150, {})
        await append_durably(folder.log("big", 149), batch(b"x"))
        print("made", flush=True)
        await folder.delete_topic("big")
        print("deleted", flush=True)

asyncio.run(main())
"""


@pytest.mark.process
def test_a_kill_during_a_change_leaves_a_sound_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    order = random.Random(11)
    for lines in (0, 1, 2, 3, 4, 1, 2):
        with subprocess.Popen(
            [sys.executable, "-c", CHANGER, str(data)], stdout=subprocess.PIPE, text=True
        ) as changer:
            assert changer.stdout is not None
            for _ in range(lines):
                assert changer.stdout.readline() in ("made\n", "deleted\n")
            wanted = order.randrange(20, 130)

            def partway(wanted: int = wanted) -> bool:
                names = os.listdir(data) if data.exists() else []
                return abs(sum(name.startswith("big-") for name in names) - wanted) < 60

            while not partway():
                assert changer.poll() is None
            changer.send_signal(signal.SIGKILL)

        async def check() -> None:
            folder = await open_folder(data)
            assert folder.recovered.problems == []
            check_whole(folder)
            assert all(log.topic_id != UUID(int=0) for log in folder.logs)
            await abandon(folder)

        run(check())
