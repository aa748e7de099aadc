"""Syncs in threads that know nothing of the interpreter."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sharegroup.records.compiled import NativeSyncs
from sharegroup.storage import LocalDisk, SyncFailed
from sharegroup.storage.disk import SYNC_THREADS, LocalFile
from sharegroup.storage.native_syncs import AVAILABLE, SyncThreads

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the library is not compiled here")
ROOT = Path(__file__).parents[2]
MANY = 3 * NativeSyncs.COLLECTED_MAX
LOOKS = 10_000


def files(folder: Path, count: int) -> list[LocalFile]:
    """Files with unsynced data whose names are durable."""
    disk = LocalDisk()
    made = [disk.open(f"{folder}/{number}") for number in range(count)]
    for file in made:
        file.sync()
        file.append(b"x")
    return made


async def errors(sync: Awaitable[None]) -> dict[str, int | None]:
    """By the path of the file that was not synced."""
    with pytest.raises(SyncFailed) as raised:
        await sync
    return {path: error.errno for path, error in raised.value.failures.items()}


def test_all_are_synced_and_each_error_is_its_own_files(tmp_path: Path) -> None:
    when_over: list[int] = []

    async def main() -> None:
        threads = SyncThreads(4, when_over.append)
        all_of = files(tmp_path, MANY)
        closed = all_of[7]
        closed.close()
        assert await errors(threads.sync(all_of)) == {closed.path: errno.EBADF}
        assert when_over == [MANY]
        assert all(file.sync_s > 0 for file in all_of if file is not closed)
        await threads.sync([])
        read_end, write_end = os.pipe()  # which cannot be synced
        broken = all_of[0]
        own, broken._fd = broken._fd, read_end
        assert await errors(threads.sync([broken, all_of[1]])) == {broken.path: errno.EINVAL}
        broken._fd = own
        for fd in (read_end, write_end):
            os.close(fd)
        threads.end()
        threads.end()
        for file in all_of:
            file.close()

    asyncio.run(main())


def test_those_who_wait_and_those_who_have_gone(tmp_path: Path) -> None:
    when_over: list[int] = []

    async def main(threads: SyncThreads) -> None:
        all_of = files(tmp_path, 30)
        waits = [threads.sync([file]) for file in all_of]
        await asyncio.sleep(0)
        for wait in waits[::2]:
            wait.cancel()
        await asyncio.gather(*waits[1::2])
        await threads.sync(all_of)
        assert all(file.give_back(by_force=False) for file in all_of), "none is in a sync"

    threads = SyncThreads(2, when_over.append)
    asyncio.run(main(threads))
    asyncio.run(main(threads))  # another loop
    threads.end()


def test_a_signal_goes_to_the_threads_of_python(tmp_path: Path) -> None:
    """All of them but this one have it blocked; a sync's thread would not run Python's handler."""

    async def main() -> None:
        threads = SyncThreads(4, lambda _: None)
        caught = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, caught.set)
        await threads.sync(files(tmp_path, 4))
        os.kill(os.getpid(), signal.SIGUSR1)
        await caught.wait()
        threads.end()

    asyncio.run(main())


def alone(check: Callable[[Path], None], folder: Path) -> None:
    """Run a check in a process of its own: what other tests left ends here at any moment."""
    code = (
        "import sys; from pathlib import Path; from tests.storage import test_native_syncs as own; "
        f"own.{check.__name__}(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def sees(it_holds: Callable[[], bool]) -> None:
    """It holds soon: the system lists a thread for a moment longer than a join waits for it."""
    assert any(it_holds() or os.sched_yield() for _ in range(LOOKS))


def test_the_threads_end_with_the_disk(tmp_path: Path) -> None:
    alone(the_threads_end, tmp_path)


def the_threads_end(folder: Path) -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    async def main() -> None:
        disk = LocalDisk()
        file = disk.open(f"{folder}/a")
        await disk.sync([file])  # its name, too: in a thread of Python's
        before = tasks()
        file.append(b"x")
        await disk.sync([file])
        assert tasks() == before + SYNC_THREADS
        file.close()
        disk.close()
        sees(lambda: tasks() < before)

    asyncio.run(main())


def test_a_disk_that_is_dropped_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    """Disks that nobody closed filled a process until ``select()`` refused its next socket."""
    alone(nothing_is_left, tmp_path)


def nothing_is_left(folder: Path) -> None:
    def left() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    async def one_sync(name: str) -> None:
        [file] = files(folder, 1)
        own = LocalDisk().open(f"{folder}/{name}")
        own.sync()
        own.append(b"x")
        threads = SyncThreads(4, lambda _: None)
        await threads.sync([file, own])
        file.close()
        own.close()

    asyncio.run(one_sync("first"))
    before = left()
    for number in range(5):
        asyncio.run(one_sync(f"{number}"))
    sees(lambda: left() == before)
