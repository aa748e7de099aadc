"""The one place where the shell gets its clock, its network, its disk and its randomness.

* **Clock**: ``Environment.clock``. Deadlines use ``monotonic_ms``; only timestamps that users see
  use ``wall_ms``.
* **Disk**: ``Environment.disk``.
* **Randomness**: ``Environment.entropy``, for ids.
* **Network and timers**: the running asyncio event loop (``create_server``, ``create_connection``,
  ``call_at``), which a simulator replaces as a whole by a loop with virtual time and in-memory
  connections (``sharegroup.sim``).

No other module of the shell may call ``time``, ``open``, ``random`` or ``socket``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from uuid import UUID

_T = TypeVar("_T")
NO_LIMIT: Final = 2**31 - 1
"""No limit: the largest 32-bit number."""


class Clock(Protocol):
    """Time in whole milliseconds."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class FileRange(Protocol):
    """Bytes of a file that never change, which can be sent without being read first. They can be
    sent for as long as this object lives, also when the file has been closed or removed."""

    def __len__(self) -> int: ...

    def read(self, size: int, position: int) -> bytes:
        """``size`` bytes from ``position`` in the range; raises OSError."""
        ...

    def part(self, start: int, stop: int) -> FileRange:
        """The bytes ``start`` … ``stop - 1`` of the range."""
        ...

    def send(self, socket: int, size: int, position: int) -> int:
        """Send up to ``size`` bytes from ``position`` to the descriptor of a socket. Returns how
        many the socket has taken.

        Raises:
            BlockingIOError: the socket takes no bytes now.
            OSError: the file cannot be read, or the socket is broken.
        """
        ...


class DiskFile(Protocol):
    """One open file.

    Positions and sizes are in bytes.
    """

    path: str

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes: ...

    def range(self, size: int, position: int) -> FileRange | None:
        """``size`` bytes from ``position``, to be sent; None where bytes have to be read."""
        ...

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write at the end, wholly or not at all as far as the system lets us; raises OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def modified_ms(self) -> int:
        """When the content last changed, in milliseconds since 1970; raises OSError."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and folders.

    Every method but :meth:`sync` and :meth:`run` is synchronous, and may be called from within
    :meth:`run`; all raise OSError.
    """

    def open(self, path: str) -> DiskFile:
        """Open for reading and appending; created when missing."""
        ...

    def sync(self, files: Sequence[DiskFile]) -> Awaitable[None]:
        """Done when the data of all ``files`` is on stable storage (fdatasync), off the event
        loop's thread."""
        ...

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run ``work``, which may block, off the event loop's thread; returns its result. One piece
        of work runs at a time, in the order of the calls."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file durably: temporary name, fsync, rename, fsync of the folder."""
        ...

    def reserve(self, path: str, size: int) -> None:
        """Let a file take up ``size`` bytes; nothing happens when it does already."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """(bytes of the volume that a folder is on, bytes of it that can still be used); -1: not
        known."""
        ...

    def full_path(self, path: str) -> str:
        """The path from the root on, for people."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder, with its parents; nothing happens when it is there."""
        ...

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make folders whose parents exist, as durably as :meth:`make_folder`, but with one sync
        for all."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Rename (old, new), as durably as :meth:`rename`, but with one sync for all."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is gone."""
        ...

    def lock(self, path: str) -> None:
        """Hold ``path`` as a lock file, and its folder, until :meth:`unlock`; raises
        BlockingIOError when another process holds one of them."""
        ...

    def unlock(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A broker's clock, disk and source of randomness."""

    clock: Clock
    disk: Disk
    entropy: Callable[[int], bytes]
    """Returns that number of random bytes (``os.urandom``, or a seeded source)."""
    descriptors: Callable[[], int] = lambda: NO_LIMIT
    """How many file descriptors this process may have at this moment."""
    low_priority: Callable[[Callable[[], None]], Awaitable[None]] | None = None
    """Runs work that must not slow down requests in a thread; None: there is no such thread."""

    def new_id(self) -> UUID:
        """A random id, for topics and clusters."""
        return UUID(bytes=self.entropy(16), version=4)
