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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """Time in whole milliseconds."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


class DiskFile(Protocol):
    """One open file.

    Positions and sizes are in bytes.
    """

    path: str

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes: ...

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write at the end, wholly or not at all as far as the system lets us; raises OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and folders.

    Every method but :meth:`sync` is synchronous; all raise OSError.
    """

    def open(self, path: str) -> DiskFile:
        """Open for reading and appending; created when missing."""
        ...

    async def sync(self, files: Sequence[DiskFile]) -> None:
        """Return when the data of all ``files`` is on stable storage (fdatasync), off the event
        loop's thread."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file durably: temporary name, fsync, rename, fsync of the folder."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder, with its parents; nothing happens when it is there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is gone."""
        ...

    def lock(self, path: str) -> None:
        """Hold ``path`` as a lock file until :meth:`unlock`; raises BlockingIOError when another
        process holds it."""
        ...

    def unlock(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a broker is given to stand on."""

    clock: Clock
    disk: Disk
    entropy: Callable[[int], bytes]
    """So many random bytes (``os.urandom``, or a seeded source)."""

    def new_id(self) -> UUID:
        """A random id, for topics and clusters."""
        return UUID(bytes=self.entropy(16), version=4)
