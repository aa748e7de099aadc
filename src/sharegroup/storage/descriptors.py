"""Which open files hold a descriptor: files with unsynced data, and the most recently used others.

A partition keeps all its segments open as objects; a topic of a thousand segments must not keep a
thousand descriptors. A file whose data is synced gives its descriptor back when others need one,
and gets another when it is used again. A file with unsynced data keeps its own, because the kernel
reports a failed write-back to the descriptor that wrote. Only when the system has no descriptor
left, such a file is synced first and then gives it back; an error of that sync is raised by the
file's next sync.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

CACHED_MAX: Final = 512
"""Descriptors kept for files without unsynced data: opening one again takes ten microseconds."""
CACHED_MIN: Final = 8
LOOKS_MAX: Final = 16
"""How many files are tried in the search for one that can give its descriptor back."""

SPARED_MAX: Final = 2
"""Most descriptors given back for one new one. If these do not help, giving back all the others
would not help either.
"""

_T = TypeVar("_T")
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


def cached_files(limit: int) -> int:
    """How many descriptors to keep in a process that may have ``limit`` of them."""
    return max(CACHED_MIN, min(CACHED_MAX, limit // 8))


class DescriptorHolder(Protocol):
    """A file with a descriptor."""

    used: bool
    """The file was read or written since the last search tried it."""

    def give_back(self, *, by_force: bool) -> bool:
        """Close the descriptor if that loses nothing; with ``by_force``, sync first. Returns False
        if it was kept.
        """
        ...


class Descriptors:
    """The files of one disk that hold a descriptor. May be called from any thread."""

    def __init__(self, files_max: int = CACHED_MAX) -> None:
        self._files_max = files_max
        self._held: dict[DescriptorHolder, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def with_spare(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``. If no descriptor is left for it, a file gives one back and
        ``work`` is called again.

        Raises:
            OSError: as ``work``.
        """
        for _ in range(SPARED_MAX):
            try:
                return work()
            except OSError as error:
                if error.errno not in _NONE_LEFT or not self.spare():
                    raise
        return work()

    def hold(self, file: DescriptorHolder) -> None:
        """Note that ``file`` has a descriptor now."""
        with self._lock:
            self._held[file] = None
            if len(self._held) > self._files_max:
                self._give_back(LOOKS_MAX, by_force=False)

    def drop(self, file: DescriptorHolder) -> None:
        """Note that ``file`` has no descriptor any more."""
        with self._lock:
            self._held.pop(file, None)

    def trim(self, synced: int) -> None:
        """After a sync of ``synced`` files, give back descriptors beyond the number to keep."""
        with self._lock:
            looks = 2 * max(LOOKS_MAX, synced)
            while len(self._held) > self._files_max and self._give_back(looks, by_force=False):
                looks = 2 * LOOKS_MAX

    def spare(self) -> bool:
        """Get one descriptor back from any file; returns False if none can give it."""
        with self._lock:
            looks = 2 * len(self._held)  # twice: a recently used file is skipped the first time
            return self._give_back(looks, by_force=False) or self._give_back(looks, by_force=True)

    def _give_back(self, looks: int, *, by_force: bool) -> bool:
        for _ in range(min(looks, 2 * len(self._held))):
            file = next(iter(self._held))
            del self._held[file]
            if not file.used and file.give_back(by_force=by_force):
                return True
            file.used = False
            self._held[file] = None
        return False
