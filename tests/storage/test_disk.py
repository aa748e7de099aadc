"""The real disk on real files."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharegroup.records.compiled import sync_with
from sharegroup.records.walk import LIBRARY
from sharegroup.storage import LocalDisk, SyncFailed
from sharegroup.storage.local_file import LocalFile
from tests.storage.support import run


@pytest.fixture
def disk() -> LocalDisk:
    return LocalDisk()


def test_appends_reads_and_truncates(disk: LocalDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "a"))
    file.append(b"one")
    file.append([b"two", memoryview(b"-three")[1:]])
    file.append([b"x"] * 2000)
    assert file.size() == 11 + 2000
    assert file.pread(8, 3) == b"twothree"
    assert file.pread(100, 2005) == b"x" * 6
    assert file.pread(5, 9999) == b""
    file.truncate(4)
    file.append(b"!")
    file.close()
    file.close()
    assert disk.read_file(str(tmp_path / "a")) == b"onet!"
    again = disk.open(str(tmp_path / "a"))
    assert again.size() == 5
    again.close()


def test_the_time_of_the_last_write_is_asked_once_after_a_write(
    disk: LocalDisk, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.utime(path, (5, 5))
    file = disk.open(str(path))
    assert file.modified_ms() == 5_000
    file.append(b"new")
    written_ms = file.modified_ms()
    assert abs(written_ms - time.time() * 1000) < 60_000
    os.utime(path, (6, 6))
    assert file.modified_ms() == written_ms
    file.truncate(1)
    assert file.modified_ms() >= written_ms
    file.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_write_that_fails_raises(disk: LocalDisk) -> None:
    file = disk.open("/dev/full")
    with pytest.raises(OSError, match=r"No space|Invalid argument"):
        file.append(b"x")
    file.close()


def test_sync_names_the_files_that_fail_and_syncs_the_others(
    disk: LocalDisk, tmp_path: Path
) -> None:
    async def main() -> None:
        files = [disk.open(str(tmp_path / str(number))) for number in range(9)]
        for file in files:
            file.append(b"x")
        await disk.sync(files)
        assert not any(file.folder_dirty for file in files)
        files[3].close()
        with pytest.raises(SyncFailed) as raised:
            await disk.sync(files)
        assert list(raised.value.failures) == [str(tmp_path / "3")]
        await disk.sync([])
        for file in files:
            file.close()

    run(main())


@pytest.mark.skipif(sync_with(LIBRARY) is None, reason="in Python the lock's wait is in the time")
def test_a_disk_is_not_slow_because_the_loop_is_busy(tmp_path: Path) -> None:
    """A thread that syncs waits for the interpreter's lock twice: before, and after. Neither is
    the disk's time, by which it is decided whether a sync may be done on the loop's thread."""
    file = LocalDisk().open(str(tmp_path / "a"))
    file.sync()
    # The loop may be slow to take the lock back, and then nobody waits after the sync: try again.
    assert any(_waits_beside_the_sync(file) > 1.5 * _HELD_S for _ in range(20))
    file.close()


_HELD_S = 0.2


def _waits_beside_the_sync(file: LocalFile) -> float:
    """How long a thread waited that synced beside a loop that keeps the interpreter's lock, in
    seconds, without what the file takes for the time of its disk."""
    ended: list[float] = []
    usual_s = sys.getswitchinterval()
    file.append(bytes(8 << 20))  # some milliseconds of sync, for the loop to take the lock back
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        sys.setswitchinterval(_HELD_S)
        try:
            begun_s = time.perf_counter()
            pool.submit(lambda: (file.sync(), ended.append(time.perf_counter())))
            while not ended:
                pass  # never lets go of the lock by itself
        finally:
            sys.setswitchinterval(usual_s)
    return ended[0] - begun_s - file.sync_s


def test_files_and_folders(disk: LocalDisk, tmp_path: Path) -> None:
    folder = f"{tmp_path}/deep/folder"
    disk.make_folder(folder)
    disk.make_folder(folder)
    disk.write_file(f"{folder}/b", b"1")
    disk.write_file(f"{folder}/b", b"2")
    disk.write_file(f"{folder}/a", b"")
    assert disk.list(folder) == ["a", "b"]
    assert disk.read_file(f"{folder}/b") == b"2"
    disk.rename(f"{folder}/b", f"{folder}/c")
    assert disk.exists(f"{folder}/c")
    disk.remove(f"{folder}/c")
    disk.remove(f"{folder}/c")
    disk.remove(folder)
    assert not disk.exists(folder)


def test_a_new_folder_outside_is_this_users_alone(disk: LocalDisk, tmp_path: Path) -> None:
    """As the data folder: what passwords are checked by is in it. One that exists stays as it
    is."""
    disk.make_folder(str(tmp_path / "elsewhere/data"))
    assert (tmp_path / "elsewhere/data").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    disk.make_folder(str(tmp_path / "open"))
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755


def test_a_lock_is_held_once(disk: LocalDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    disk.lock(path)
    with pytest.raises(BlockingIOError):
        LocalDisk().lock(path)
    disk.unlock(path)
    disk.unlock(path)
    disk.lock(path)
    disk.unlock(path)
    disk.close()
