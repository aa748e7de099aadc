"""Which open files hold a descriptor: those with unsynced data, and the others used last.

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
"""Descriptors kept for files that could do without: reopening one takes ten microseconds."""
CACHED_MIN: Final = 8
LOOKS_MAX: Final = 16
"""Files looked at for one that can give its descriptor back."""

SPARED_MAX: Final = 2
"""The most descriptors given back for one that is wanted. If these do not help, giving back all
others would not help either.
"""

_T = TypeVar("_T")
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


def cached_files(limit: int) -> int:
    """How many to keep in a process that may have ``limit`` descriptors."""
    return max(CACHED_MIN, min(CACHED_MAX, limit // 8))


class Holder(Protocol):
    """A file with a descriptor."""

    used: bool
    """It was read or written since it was last looked at."""

    def give_back(self, *, by_force: bool) -> bool:
        """Close the descriptor if that loses nothing; ``by_force`` after a sync. False: kept."""
        ...


class Descriptors:
    """The files of one disk that hold a descriptor. May be called from any thread."""

    def __init__(self, files_max: int = CACHED_MAX) -> None:
        self._files_max = files_max
        self._held: dict[Holder, None] = {}
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

    def hold(self, file: Holder) -> None:
        """``file`` has a descriptor now."""
        with self._lock:
            self._held[file] = None
            if len(self._held) > self._files_max:
                self._give_back(LOOKS_MAX, by_force=False)

    def drop(self, file: Holder) -> None:
        """``file`` has none any more."""
        with self._lock:
            self._held.pop(file, None)

    def trim(self, synced: int) -> None:
        """So many files have been synced: those over the number that is kept give theirs back."""
        with self._lock:
            looks = 2 * max(LOOKS_MAX, synced)
            while len(self._held) > self._files_max and self._give_back(looks, by_force=False):
                looks = 2 * LOOKS_MAX

    def spare(self) -> bool:
        """Get one descriptor back, from whichever file can give it; False when none can."""
        with self._lock:
            looks = 2 * len(self._held)  # twice: the first look at a file used of late passes by
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
