"""Which files hold a descriptor, and that it makes no difference to what is in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sharegroup.storage import LocalDisk, LogSettings, SyncFailed
from sharegroup.storage.descriptors import CACHED_MAX, CACHED_MIN, cached_files
from sharegroup.storage.disk import LocalFile
from tests.storage.lacks import no_descriptors
from tests.storage.support import append_durably, batch, held_in, one_log, opened, read_values, run


async def written(disk: LocalDisk, folder: Path, count: int) -> list[LocalFile]:
    """Synced files, each with its number in it."""
    files = [disk.open(f"{folder}/{number}") for number in range(count)]
    for number, file in enumerate(files):
        file.append(b"%d" % number)
    await disk.sync(files)
    return files


def test_a_topic_of_many_segments_holds_few_descriptors(tmp_path: Path) -> None:
    async def main() -> None:
        small = LogSettings(segment_bytes=200)
        disk = LocalDisk(files_max=10)
        values = [b"%d" % number * 20 for number in range(150)]
        async with opened(tmp_path, small, disk=disk) as folder:
            log = await one_log(folder)
            await append_durably(log, *map(batch, values))
            assert log.statistics().segments > 60
            assert [value for _, value in await read_values(log)] == values
            assert held_in(tmp_path) <= 10 + 1  # the lock's
        disk = LocalDisk(files_max=10)
        async with opened(tmp_path, small, disk=disk) as folder:
            assert held_in(tmp_path) <= 10 + 1
            assert [value for _, value in await read_values(await one_log(folder))] == values

    run(main())


def test_synced_files_give_their_descriptors_back_and_unsynced_ones_do_not(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(files_max=3)
        files = await written(disk, tmp_path, 20)
        for number, file in enumerate(files):
            assert file.pread(9, 0) == b"%d" % number
        await disk.sync(files)
        await disk.sync(files)  # whoever was used of late is let off once
        assert held_in(tmp_path) <= 3
        for file in files:
            file.append(b"!")
        assert held_in(tmp_path) == 20
        await disk.sync(files)
        assert [file.pread(9, 0) for file in files] == [b"%d!" % number for number in range(20)]
        await disk.sync(files)
        await disk.sync(files)
        assert held_in(tmp_path) <= 3
        for file in files:
            file.close()
        assert held_in(tmp_path) == 0
        with pytest.raises(OSError, match="Bad file descriptor"):
            files[0].pread(1, 0)

    run(main())


def test_without_free_descriptors_files_take_them_from_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk()
        files = await written(disk, tmp_path, 9)
        for file in files:
            file.append(b"unsynced")
        with no_descriptors():
            other = disk.open(f"{tmp_path}/other")  # the one that it gets was synced before
            other.append(b"x")
            assert [file.pread(1, 0) for file in files] == [b"%d" % number for number in range(9)]
            assert disk.read_file(f"{tmp_path}/other") == b"x"
            disk.write_file(f"{tmp_path}/small", b"y")
            disk.remove(f"{tmp_path}/small")
        await disk.sync([*files, other])
        for file in (*files, other):
            file.close()

    run(main())


def test_an_error_of_a_forced_sync_is_raised_by_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        disk = LocalDisk()
        (file,) = await written(disk, tmp_path, 1)
        file.append(b"unsynced")

        def broken(_fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            file.used = False
            assert file.give_back(by_force=True)
        with pytest.raises(SyncFailed) as raised:
            await disk.sync([file])
        assert raised.value.failures[file.path].errno == errno.EIO
        file.close()

    run(main())


def test_another_file_with_the_same_path_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk()
        (file,) = await written(disk, tmp_path, 1)
        file.used = False
        assert file.give_back(by_force=False)
        (tmp_path / "0").rename(tmp_path / "aside")
        (tmp_path / "0").write_bytes(b"somebody else's")
        with pytest.raises(OSError, match="another file") as raised:
            file.pread(1, 0)
        assert raised.value.errno == errno.ESTALE
        (tmp_path / "aside").rename(tmp_path / "0")
        assert file.pread(1, 0) == b"0"
        file.close()

    run(main())


def test_the_bytes_of_a_failed_append_are_truncated_before_the_next(tmp_path: Path) -> None:
    """Also when it could not be cut at once."""
    disk = LocalDisk()
    file = disk.open(f"{tmp_path}/a")
    file.append(b"whole")
    with (tmp_path / "a").open("ab") as other:
        other.write(b"half")
    file._torn = True
    file.append(b"!")
    assert disk.read_file(f"{tmp_path}/a") == b"whole!"
    file.close()


@pytest.mark.parametrize(
    ("limit", "cached"),
    [(1, CACHED_MIN), (8 * CACHED_MIN, CACHED_MIN), (1024, 128), (1 << 20, CACHED_MAX)],
)
def test_the_number_of_kept_descriptors_follows_the_limit(limit: int, cached: int) -> None:
    assert cached_files(limit) == cached
