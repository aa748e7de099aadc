"""What a walk says of a batch's records. The numbers are the same as in ``walk.c``."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Verdict(IntEnum):
    """The first thing that is wrong."""

    GOOD = 0
    CUT = 1
    NUMBER = 2
    LENGTH = 3
    END = 4
    DELTA = 5
    FEWER = 6
    MORE = 7

    @property
    def words(self) -> str:
        """For an error's text, after "record 7 of 10: "."""
        return _WORDS[self]

    @property
    def is_about_counts(self) -> bool:
        """The records can be read, but are not the records that the header describes."""
        return self >= Verdict.DELTA


_WORDS = {
    Verdict.GOOD: "it is good",
    Verdict.CUT: "it is cut off",
    Verdict.NUMBER: "a number in it is longer than its type",
    Verdict.LENGTH: "a length or a count in it is impossible",
    Verdict.END: "it does not end where its length says",
    Verdict.DELTA: "its offset is not the next one",
    Verdict.FEWER: "the batch ends before it",
    Verdict.MORE: "the batch continues after the last record",
}


class Walked(NamedTuple):
    """What a walk found. ``TIMELESS`` stands for both times where no record has one."""

    verdict: Verdict
    records: int
    """How many records were good."""
    position: int
    """Where the walk ended."""
    earliest_ms: int
    """The earliest timestamp of a record, in milliseconds. A timestamp of -1 means none, and is
    left out."""
    latest_ms: int
    keyless: int
    """How many records have no key."""


TIMELESS = (2**63 - 1, -(2**63))
"""``earliest_ms`` and ``latest_ms`` where no record has a timestamp."""
