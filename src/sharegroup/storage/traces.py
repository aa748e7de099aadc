"""What side files tell about segments whose log file is gone.

An index is written when its segment is sealed, a snapshot when its segment has been created. Of a
segment's files, the log file is removed first. So a side file beyond the last log file means that
there was another segment. If the log start is not known, an index before the first log file means
the same.
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
    """The largest offset that names a side file: the log had all offsets below it. 0 if it is not
    beyond ``last_base``, the base offset of the last log file.
    """
    found = max(_bases(names, (*_INDEXES, _SNAPSHOT)), default=0)
    return found if found > last_base else 0


def is_lost(disk: Disk, folder: str, recovery_point: int, reached: int) -> bool:
    """Whether the segment at ``reached`` was lost, and no recovery point tells how many records it
    held. Raises OSError.

    A snapshot alone proves no segment: a clean end leaves one where the log ended, and every start
    of Kafka does so too. Only a snapshot that we wrote for a new segment proves that segment.
    """
    if reached <= recovery_point:
        return False
    try:
        path = f"{folder}/{reached:020d}{_SNAPSHOT}"
        return producer_snapshot.begins_segment(disk.read_file(path))
    except FileNotFoundError:
        return True  # so the trace is an index, which only a segment has
    except ValueError:
        return False  # a torn snapshot: the crash came while the segment was being created


def lost(reached: int) -> str:
    """The sentence for the log: what the loss of a segment means."""
    return (
        "is missing, but other files of that segment are there. The records that it held are lost; "
        f"how many is not known, and offsets from {reached} on may be used again"
    )


def begun(names: Iterable[str], first_base: int) -> int:
    """The base offset of the first segment that side files prove. ``first_base``: the base offset
    of the first log file."""
    return min([first_base, *_bases(names, _INDEXES)])


def stale(names: Iterable[str], first_base: int, log_start: int) -> list[str]:
    """The indexes, below the log start, that a crash has left of deleted segments."""
    below = min(first_base, log_start)
    return [name for name in names if any(base < below for base in _bases([name], _INDEXES))]
