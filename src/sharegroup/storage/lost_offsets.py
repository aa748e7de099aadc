"""Continues a log that has lost its tail. The next records get offsets after the lost ones, because
an offset names one record for ever.
"""

from __future__ import annotations

import logging
from typing import Final

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.storage.damage import Damage
from sharegroup.storage.recovery import Recovered
from sharegroup.storage.segment import Segment

DURABLE: Final = "was durable up to"
SEEN: Final = "a share group has seen offsets up to"


def report(recovered: Recovered, log: object, end: int, reason: str, next_offset: int) -> None:
    """Log that ``log`` ends at ``end`` and continues at ``next_offset``."""
    recovered.damaged_batches += 1
    recovered.report(
        logging.ERROR,
        f"{log} ends at offset {end}, but {reason} {next_offset}: data is missing. Offsets {end} "
        f"to {next_offset - 1} are given up; the next record gets offset {next_offset}",
    )


def skip(disk: Disk, segments: list[Segment], next_offset: int, sides: list[DiskFile]) -> DiskFile:
    """Give up the offsets up to ``next_offset``: begin a new segment there and return its file.
    Index files are added to ``sides``. The caller must sync all of them before the next append.
    """
    last = segments[-1]
    last.quarantine.add([Damage(last.size, last.size, last.next_offset, next_offset - 1)])
    last.next_offset = next_offset
    last.write_indexes(sides)
    segments.append(last.following(disk, next_offset))
    return segments[-1].file
