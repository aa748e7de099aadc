"""What went against the order per key, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Disorder:
    """What went against the order since the share partition was loaded, in records."""

    out_of_order: int = 0
    """Accepted while an earlier record of the key was unfinished, and the same request did not
    release that record: delivered again."""
    taken_back: int = 0
    """Taken from their holder, because an earlier record of the key was released or expired, or
    accepted out of order."""
    late: int = 0
    """Acknowledged by a member that did not hold the record, or did not hold it any more."""
