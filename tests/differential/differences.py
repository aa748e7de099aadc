"""Differences that are meant, read from `tests/conformance/differences.csv`.

Each row has a name, a pattern for what Kafka's line must look like and one for ours, and the
reason. A pattern matches a step and what was seen of one partition; `(?P<name>…)` groups that both
patterns have must be equal. After a difference that `parts` the two, the rest of the script is not
compared. A row without patterns is one that the scripts keep clear of.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path

TABLE = Path(__file__).parents[1] / "conformance" / "differences.csv"


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    name: str
    kafka: re.Pattern[str]
    ours: re.Pattern[str]
    parts: bool
    why: str

    def explains(self, kafka: str, ours: str) -> bool:
        """Whether this is why the two lines are not equal."""
        theirs, mine = self.kafka.fullmatch(kafka), self.ours.fullmatch(ours)
        if theirs is None or mine is None:
            return False
        shared = theirs.groupdict().keys() & mine.groupdict().keys()
        return all(theirs[name] == mine[name] for name in shared)


class Seen(Enum):
    """What comparing one step came to."""

    SAME = 1
    DECLARED = 2
    PARTED = 3
    DIFFERENT = 4


def compare(kafka: str, ours: str, known: list[Difference]) -> Seen:
    """Whether the lines of one step differ, and whether somebody has declared that."""
    step, _, theirs = kafka.partition(" -> ")
    same_step, _, mine = ours.partition(" -> ")
    assert step == same_step
    seen = Seen.SAME
    for one, other in zip_longest(theirs.split(", "), mine.split(", "), fillvalue=""):
        if one == other:
            continue
        texts = f"{step} {one}", f"{step} {other}"
        why = next((row for row in known if row.explains(*texts)), None)
        if why is None:
            return Seen.DIFFERENT
        seen = Seen.PARTED if why.parts or seen is Seen.PARTED else Seen.DECLARED
    return seen


def declared() -> list[Difference]:
    """All rows."""
    with TABLE.open(newline="") as table:
        return [
            Difference(
                row["name"],
                re.compile(row["kafka"]),
                re.compile(row["ours"]),
                bool(row["parts"]),
                row["why"],
            )
            for row in csv.DictReader(table)
            if row["kafka"]
        ]
