"""What must hold after operators' acts. Each rule yields a sentence for what is wrong.

* while a group is paused, no record is acquired, whatever is killed;
* a fork has each record that nobody had begun to accept, and none whose accept was confirmed
  before: of a record in between nobody can say;
* a record that was purged is accepted by nobody that asks after the purge, nor given to a member
  that began after it;
* in the end each record was asked to be accepted, or was purged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.kills.journal import Line

SHOWN = 3
DRIVER = "driver"

Place = tuple[int, int]
"""Partition and offset."""


class Accepts(NamedTuple):
    """When the first member asked, and when the first answer came, by place."""

    asked: dict[Place, int]
    confirmed: dict[Place, int]


def violations(
    lines: Sequence[Line], ends: Mapping[int, int], forks: Mapping[str, set[Place]]
) -> list[str]:
    """Everything that is wrong.

    Args:
        lines: of all journals, by time.
        ends: how many records each partition has.
        forks: what members of each fork were given.
    """
    accepts = accepts_of(lines)
    purges = [line for line in lines if (line.who, line.what) == (DRIVER, "purged")]
    return [
        *_shown("records acquired during a pause", _pauses(lines)),
        *_shown("records a fork has or lacks", _forks(lines, ends, forks, accepts, purges)),
        *_shown("records that a purge left", _purges(lines, purges)),
        *_shown("records nobody has finished", _unfinished(ends, accepts, purges)),
    ]


def accepts_of(lines: Iterable[Line]) -> Accepts:
    """See the class."""
    found = Accepts({}, {})
    asked: dict[tuple[str, int], list[Place]] = {}
    for line in lines:
        if line.what == "accepting":
            places = [(p, offset) for p, offset in line.more["records"]]
            asked[line.who, line.life] = places
            for at in places:
                found.asked.setdefault(at, line.at_ns)
        elif line.what == "answered":
            for at in asked.pop((line.who, line.life), ()):
                if at[0] in line.more["done"]:
                    found.confirmed.setdefault(at, line.at_ns)
    return found


def _pauses(lines: Iterable[Line]) -> Iterator[str]:
    held: set[tuple[int, int]] = set()
    for line in lines:
        if line.who == DRIVER and line.what == "paused":
            held = {(p, offset) for p, offset in line.more["acquired"]}
        elif line.who == DRIVER and line.what == "resuming":
            yield from (f"{p}-{o}" for p, o in line.more["acquired"] if (p, o) not in held)


def _forks(
    lines: Iterable[Line],
    ends: Mapping[int, int],
    forks: Mapping[str, set[Place]],
    accepts: Accepts,
    purges: Sequence[Line],
) -> Iterator[str]:
    for line in lines:
        if (line.who, line.what) != (DRIVER, "forked"):
            continue
        name, begun_ns = line.more["fork"], line.more["begun_ns"]
        given = forks[name]
        for partition, end in ends.items():
            purged = max(
                (purge.more["ends"][str(partition)] for purge in purges
                 if purge.more["begun_ns"] <= line.at_ns),
                default=0,
            )  # fmt: skip
            for offset in range(end):
                at = (partition, offset)
                if at in given:
                    if accepts.confirmed.get(at, line.at_ns) < begun_ns:
                        yield f"{name} has {at}, which was accepted"
                elif accepts.asked.get(at, line.at_ns) >= line.at_ns and offset >= purged:
                    yield f"{name} lacks {at}"


def _purges(lines: Iterable[Line], purges: Sequence[Line]) -> Iterator[str]:
    begun: dict[tuple[str, int], int] = {}
    asked: dict[tuple[str, int], tuple[int, list[Place]]] = {}
    for line in lines:
        life = line.who, line.life
        if line.what == "begins":
            begun[life] = line.at_ns
        elif line.what == "took":
            for partition, offset, _ in line.more["records"]:
                if _purged_before(purges, begun[life], partition, offset):
                    yield f"{life} was given {partition}-{offset}"
        elif line.what == "accepting":
            asked[life] = line.at_ns, [(p, offset) for p, offset in line.more["records"]]
        elif line.what == "answered" and life in asked:
            asked_ns, places = asked.pop(life)
            for partition, offset in places:
                if partition in line.more["done"] and _purged_before(
                    purges, asked_ns, partition, offset
                ):
                    yield f"{life} has accepted {partition}-{offset}"


def _purged_before(purges: Sequence[Line], at_ns: int, partition: int, offset: int) -> bool:
    return any(
        purge.at_ns < at_ns and offset < purge.more["before"][str(partition)] for purge in purges
    )


def _unfinished(ends: Mapping[int, int], accepts: Accepts, purges: Sequence[Line]) -> Iterator[str]:
    for partition, end in ends.items():
        purged = max((purge.more["ends"][str(partition)] for purge in purges), default=0)
        for offset in range(purged, end):
            if (partition, offset) not in accepts.asked:
                yield f"{partition}-{offset}"


def _shown(what: str, found: Iterable[str]) -> Iterator[str]:
    """One sentence with the number, and the first ones."""
    every = list(found)
    if every:
        yield f"{len(every)} {what}: {', '.join(every[:SHOWN])}"
