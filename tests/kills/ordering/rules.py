"""What must hold after a round with order per key. Each rule yields a sentence for what is wrong.

What can an observer prove who sees only the outside? An accept that the broker confirmed was one of
a record that its member held at some moment between request and answer. So:

* no record's accept is confirmed twice, until the start of its partition may have passed it;
* a later record's accept is not confirmed before anybody asked for an earlier one's of its key;
* a member that was given a record once, and whose accept of it was confirmed and is the first, held
  it from when it took it to when it asked: nobody else held its key in between;
* in the log of record states, no record is acknowledged while an earlier one of its key is not
  finished, none is finished and then not, none is archived, and at the end all are finished;
* whenever the broker shows its states, a key's records are with one member, none of them behind one
  that nobody holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.kills.journal import Line
from tests.kills.ordering.states import ACKNOWLEDGED, ARCHIVED, Write

SHOWN = 3
AVAILABLE, ACQUIRED = 0, 1

Keys = dict[int, list[bytes]]
"""By partition: the key of each offset."""
Place = tuple[int, int]
"""Partition and offset."""
Life = tuple[str, int]


class Accept(NamedTuple):
    """One accept by a member."""

    place: Place
    who: Life
    took_ns: int
    """When the member had got it, the last time before."""
    asked_ns: int
    confirmed_ns: int | None
    """None: refused, or nobody knows."""
    sure: bool
    """The member had got it once only, went on, and nobody else had asked before."""


def violations(lines: Sequence[Line], keys: Keys, writes: Sequence[Write]) -> list[str]:
    """Everything that is wrong. ``lines``: by time."""
    accepts = accepts_of(lines)
    return [
        *_shown("records nobody has accepted", _missing(keys, accepts)),
        *_shown("accepts confirmed twice", _twice(keys, accepts)),
        *_shown("accepts against the order of the log", _disorder(keys, accepts)),
        *_shown("keys with two members at once", _shared(keys, accepts)),
        *_shown("states written against the order", _states(keys, writes)),
        *_shown("states shown against the order", _samples(keys, lines)),
    ]


def _shown(what: str, found: Iterable[str]) -> list[str]:
    all_of_them = [*found]
    first = "; ".join(all_of_them[:SHOWN])
    return [f"{len(all_of_them)} {what}: {first}"] if all_of_them else []


def accepts_of(lines: Sequence[Line]) -> list[Accept]:
    """All accepts, by the time when they were asked for."""
    found: list[Accept] = []
    times: dict[tuple[Life, Place], list[int]] = defaultdict(list)
    last_took: dict[Life, int] = {}
    open_: dict[Life, tuple[int, list[Place]]] = {}

    def end(who: Life, done: Sequence[int], at_ns: int) -> None:
        asked_ns, places = open_.pop(who, (0, []))
        for place in places:
            took_ns = times[who, place][-1]
            confirmed = at_ns if place[0] in done else None
            found.append(Accept(place, who, took_ns, asked_ns, confirmed, sure=False))

    for line in lines:
        who = line.who, line.life
        if line.what == "took":
            last_took[who] = line.at_ns
            for partition, offset, _ in line.more["records"]:
                times[who, (partition, offset)].append(line.at_ns)
        elif line.what == "accepting":
            open_[who] = line.at_ns, [(p, offset) for p, offset in line.more["records"]]
        elif line.what == "answered":
            end(who, line.more["done"], line.at_ns)
    for who in list(open_):
        end(who, (), 0)
    found.sort(key=lambda each: each.asked_ns)
    first: dict[Place, Life] = {}
    return [
        each._replace(
            sure=first.setdefault(each.place, each.who) == each.who
            and each.confirmed_ns is not None
            and len(times[each.who, each.place]) == 1
            and last_took[each.who] > each.confirmed_ns
        )
        for each in found
    ]


def _by_key(keys: Keys) -> Iterator[list[Place]]:
    """The records of each key, in the order of the log."""
    for partition, of_offset in keys.items():
        places: dict[bytes, list[Place]] = defaultdict(list)
        for offset, key in enumerate(of_offset):
            places[key].append((partition, offset))
        yield from places.values()


def _missing(keys: Keys, accepts: Iterable[Accept]) -> Iterator[str]:
    asked = {each.place for each in accepts}
    for places in _by_key(keys):
        yield from (f"{place}" for place in places if place not in asked)


def _twice(keys: Keys, accepts: Sequence[Accept]) -> Iterator[str]:
    """A second accept may be confirmed once the partition's start is past the record, as in Kafka:
    so when all before it have been accepted too."""
    confirmed: dict[Place, Accept] = {}
    passable = _passable(keys, accepts)
    for each in sorted(accepts, key=lambda each: each.confirmed_ns or 0):
        if each.confirmed_ns is not None:
            other = confirmed.setdefault(each.place, each)
            if other is not each and each.confirmed_ns < passable[each.place]:
                yield f"{each.place} by {other.who} and {each.who}"


def _first_asked(accepts: Iterable[Accept]) -> dict[Place, int]:
    asked: dict[Place, int] = {}
    for each in accepts:
        asked.setdefault(each.place, each.asked_ns)
    return asked


def _passable(keys: Keys, accepts: Iterable[Accept]) -> dict[Place, int]:
    """Since when each record, and all before it in its partition, may have been finished."""
    asked = _first_asked(accepts)
    found: dict[Place, int] = {}
    for partition, of_offset in keys.items():
        latest = 0
        for offset in range(len(of_offset)):
            latest = max(latest, asked.get((partition, offset), 0))
            found[partition, offset] = latest
    return found


def _disorder(keys: Keys, accepts: Sequence[Accept]) -> Iterator[str]:
    """No accept is confirmed before those of earlier records of its key were asked for."""
    asked = _first_asked(accepts)
    confirmed: dict[Place, int] = {}
    for each in accepts:
        if each.confirmed_ns is not None:
            before = confirmed.get(each.place, each.confirmed_ns)
            confirmed[each.place] = min(before, each.confirmed_ns)
    for places in _by_key(keys):
        latest, last = 0, places[0]
        for place in places:
            if place in confirmed and confirmed[place] < latest:
                yield f"{place} was confirmed before {last} was asked for"
            if asked.get(place, 0) > latest:
                latest, last = asked[place], place


def _shared(keys: Keys, accepts: Iterable[Accept]) -> Iterator[str]:
    held: dict[tuple[int, bytes], list[Accept]] = defaultdict(list)
    for each in accepts:
        if each.sure:
            partition, offset = each.place
            held[partition, keys[partition][offset]].append(each)
    for (_, key), mine in held.items():
        mine.sort(key=lambda each: each.took_ns)
        furthest: dict[Life, Accept] = {}
        for each in mine:
            for who, other in furthest.items():
                if who != each.who and other.asked_ns > each.took_ns:
                    yield f"{key!r}: {other.place} at {who} and {each.place} at {each.who}"
            before = furthest.get(each.who)
            if before is None or before.asked_ns < each.asked_ns:
                furthest[each.who] = each


class _Finished:
    """The finished records of a partition, write by write."""

    def __init__(self) -> None:
        self.start = 0
        self.records: set[int] = set()

    def __contains__(self, offset: int) -> bool:
        return offset < self.start or offset in self.records

    def add(self, write: Write) -> Iterator[str]:
        """Take in a write; says what is wrong by itself."""
        at = write.partition
        since, self.start = self.start, max(self.start, write.start)
        for first, last, state, _ in write.rows:
            for offset in range(max(first, since), last + 1):
                if state in (ACKNOWLEDGED, ARCHIVED):
                    self.records.add(offset)
                elif offset in self:
                    yield f"{at}-{offset} was finished, and then in state {state}"
                if state == ARCHIVED:
                    yield f"{at}-{offset} is archived"


def _states(keys: Keys, writes: Iterable[Write]) -> Iterator[str]:
    followers = {place: before for places in _by_key(keys) for before, place in pairwise(places)}
    finished = {partition: _Finished() for partition in keys}
    for write in writes:
        partition, done = write.partition, finished[write.partition]
        yield from done.add(write)
        for first, last, state, _ in write.rows:
            for offset in range(first, last + 1) if state == ACKNOWLEDGED else ():
                _, before = followers.get((partition, offset), (partition, -1))
                if before not in done:
                    yield f"{partition}-{offset} is acknowledged, {before} of its key is unfinished"
    for partition, of_offset in keys.items():
        for offset in range(len(of_offset)):
            if offset not in finished[partition]:
                yield f"{partition}-{offset} is not finished at the end"


def _samples(keys: Keys, lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if line.what == "states":
            for partition, rows in line.more["partitions"].items():
                yield from _sample(keys[int(partition)], int(partition), rows)


def _sample(of_offset: list[bytes], partition: int, rows: Iterable[Sequence[int]]) -> Iterator[str]:
    """``rows``: first offset, last offset, state, member or null; ascending."""
    holder: dict[bytes, object] = {}
    waits: dict[bytes, int] = {}
    open_: dict[bytes, int] = {}
    for first, last, state, member in rows:
        for offset in range(first, min(last + 1, len(of_offset))):
            key = of_offset[offset]
            at = f"{partition}-{offset}"
            if state == ACQUIRED:
                if key in waits:
                    yield f"{at} is held, and {waits[key]} of its key is not"
                if holder.setdefault(key, member) != member:
                    yield f"{at} is with {member}, others of its key with {holder[key]}"
            elif state == ACKNOWLEDGED and key in open_:
                yield f"{at} is acknowledged, and {open_[key]} of its key is not finished"
            if state == AVAILABLE:
                waits.setdefault(key, offset)
            if state in (AVAILABLE, ACQUIRED):
                open_.setdefault(key, offset)
