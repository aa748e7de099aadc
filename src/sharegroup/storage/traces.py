"""What side files tell of segments whose log file is gone.

An index is written when its segment is sealed, a snapshot when the segment that it belongs to has
been created. A segment's log file is removed first of its files. So a side file that lies beyond
the last log file means that there was another one, and if the log start is not known, an index
before the first log file means so too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage import producer_snapshot

_INDEXES: Final = (".index", ".timeindex")
_SNAPSHOT: Final = ".snapshot"


def _bases(names: Iterable[str], endings: Sequence[str]) -> Iterable[int]:
    for name in names:
        number, _, ending = name.partition(".")
        if f".{ending}" in endings and number.isascii() and number.isdigit():
            yield int(number)


def reached(names: Iterable[str], last_base: int) -> int:
    """The base offset of the last segment that was there, as far as side files tell: the log had
    all offsets below it. 0 if it is not beyond ``last_base``, that of the last log file.
    """
    found = max(_bases(names, (*_INDEXES, _SNAPSHOT)), default=0)
    return found if found > last_base else 0


def is_lost(disk: Disk, folder: str, recovery_point: int, reached: int) -> bool:
    """Whether the segment at ``reached`` was lost, and no recovery point tells how much of it. A
    clean end leaves a snapshot where the log ended, without a segment, and so does every start of
    Kafka; only our own snapshot of a new segment says that there was one. Raises OSError.
    """
    if reached <= recovery_point:
        return False
    try:
        path = f"{folder}/{reached:020d}{_SNAPSHOT}"
        return producer_snapshot.begins_segment(disk.read_file(path))
    except FileNotFoundError:
        return True  # it has an index
    except ValueError:
        return False  # torn: the crash came while the segment was being made


def lost(reached: int) -> str:
    """What that means."""
    return (
        "is missing, but other files of that segment are there. The records that it held are lost; "
        f"how many is not known, and offsets from {reached} on may be used again"
    )


def begun(names: Iterable[str], first_base: int) -> int:
    """The base offset of the first segment that was there; ``first_base`` is that of the first
    log file."""
    return min([first_base, *_bases(names, _INDEXES)])


def stale(names: Iterable[str], first_base: int, log_start: int) -> list[str]:
    """Indexes that a crash has left of segments that were deleted, those below the log start."""
    below = min(first_base, log_start)
    return [name for name in names if any(base < below for base in _bases([name], _INDEXES))]
