"""What must hold after a round, from the journals of the clients and what was read at the end.

Nothing here asks the broker's own code. Each rule yields a sentence for each thing that is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.kills.journal import Line
from tests.kills.working import PARTITIONS

COPIES = 2
READY_MS = 15_000
"""A broker that was killed answers again within this time, on a machine that is busy."""
SHOWN = 3
FOREVER = 1 << 62

Contents = dict[int, list[tuple[int, str]]]
"""By partition: (offset, value) of each record."""
Life = tuple[str, int]


class Final(NamedTuple):
    """What a committed reader sees at the end, up to the last record."""

    input: Contents
    output: Contents
    rivals: Contents
    undecided: list[str]
    """Partitions that a committed reader cannot read to the end."""
    committed: dict[str, dict[int, int]]
    """By group: the committed offsets."""


def violations(lines: Sequence[Line], final: Final) -> list[str]:
    """Everything that is wrong. ``lines``: by time."""
    return [
        *_shown("acknowledged records are not at their place", _lost(lines, final.input)),
        *_shown("records nobody sent", _invented(lines, final.input)),
        *_shown("records out of order or twice", _disorder(lines, final.input)),
        *_shown("partitions with two members at once", _shared(lines)),
        *_shown("committed offsets that move back", _moved_back(lines, final.committed)),
        *_shown("reads that do not begin at the committed offset", _wrong_starts(lines)),
        *_shown("input records that a group never read", _unread(lines, final)),
        *_shown("transfers against their outcome", _transfers(lines, final.output)),
        *_shown("inputs not processed exactly once", _not_once(final)),
        *_shown("output out of order", _output_disorder(final.output)),
        *_shown("transactions of rivals against their outcome", _rivals(lines, final.rivals)),
        *_shown("commits of a fenced producer", _fenced(lines)),
        *_shown("partitions with an undecided transaction", final.undecided),
        *_shown("slow starts", _slow_starts(lines)),
    ]


def _shown(what: str, found: Iterable[object]) -> list[str]:
    all_of_them = [str(each) for each in found]
    first = "; ".join(all_of_them[:SHOWN])
    return [f"{len(all_of_them)} {what}: {first}"] if all_of_them else []


def _life(line: Line) -> Life:
    return line.who, line.life


# -- plain records ---------------------------------------------------------------------------------


def _lost(lines: Iterable[Line], found: Contents) -> Iterator[str]:
    at = {(p, offset): value for p, records in found.items() for offset, value in records}
    for line in lines:
        if line.what == "acked":
            place = line.more["partition"], line.more["offset"]
            value = f"{line.who}.{line.life}.{line.more['number']}"
            if at.get(place) != value:
                yield f"{value} at {place}, where {at.get(place)} is"


def _invented(lines: Iterable[Line], found: Contents) -> Iterator[str]:
    sent = {
        (line.more["partition"], f"{line.who}.{line.life}.{line.more['number']}")
        for line in lines
        if line.what == "sending"
    }
    for partition, records in found.items():
        yield from (value for _, value in records if (partition, value) not in sent)


def _disorder(lines: Iterable[Line], found: Contents) -> Iterator[str]:
    """An idempotent producer's records come in order, each once; others at first in order."""
    repeats = {_life(x) for x in lines if x.what == "begins" and x.more.get("idempotent") is False}
    for partition, records in found.items():
        last: dict[str, int] = {}
        for offset, value in records:
            life, _, number = value.rpartition(".")
            who, _, count = life.rpartition(".")
            before = last.get(life, -1)
            if int(number) > before:
                last[life] = int(number)
                if (
                    (who, int(count)) in repeats
                    and before >= 0
                    and (int(number) != before + PARTITIONS)
                ):
                    yield f"{value} at {partition}-{offset} after {before}"
            elif (who, int(count)) not in repeats:
                yield f"{value} at {partition}-{offset} after {before}"


# -- groups ----------------------------------------------------------------------------------------


class Owned(NamedTuple):
    """A member had a partition from ``since`` to ``until``, by what it was told."""

    partition: int
    who: Life
    since: int
    until: int


def _groups(lines: Iterable[Line]) -> dict[Life, str]:
    return {
        _life(line): line.more["group"]
        for line in lines
        if line.what == "begins" and "group" in line.more
    }


class Ownerships:
    """Who had what and when, by the callbacks. Who lost a partition, or gave up, had it until its
    last success: others may have got it since then."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._groups = _groups(lines)
        self._open: dict[Life, dict[int, int]] = defaultdict(dict)
        self._success: dict[Life, int] = {}
        self.by_group: dict[str, list[Owned]] = defaultdict(list)
        for line in lines:
            self._take(line)
        for who in list(self._open):
            self._end(who, list(self._open[who]), FOREVER)

    def _take(self, line: Line) -> None:
        who = _life(line)
        if line.what == "assigned":
            for partition in line.more["partitions"]:
                self._open[who].setdefault(partition, line.at_ns)
        elif line.what in ("committed", "sent offsets"):
            self._success[who] = line.at_ns
        elif line.what == "revoked":
            self._end(who, line.more["partitions"], line.at_ns)
        elif line.what == "lost":
            self._end(who, line.more["partitions"], self._success.get(who, 0))
        elif line.what in ("ends", "gave up"):
            until = line.at_ns if line.what == "ends" else self._success.get(who, 0)
            self._end(who, list(self._open[who]), until)
        elif line.what == "killed":
            dead = (line.more["victim"], line.more["life"])
            self._end(dead, list(self._open[dead]), line.at_ns)

    def _end(self, who: Life, partitions: Iterable[int], until: int) -> None:
        for partition in partitions:
            since = self._open[who].pop(partition, None)
            if since is not None:
                owned = Owned(partition, who, since, max(since, until))
                self.by_group[self._groups[who]].append(owned)


def _shared(lines: Sequence[Line]) -> Iterator[str]:
    for group, owned in Ownerships(lines).by_group.items():
        for partition in range(PARTITIONS):
            mine = sorted((o for o in owned if o.partition == partition), key=lambda o: o.since)
            for one, other in pairwise(mine):
                if one.until > other.since and one.who != other.who:
                    ms = (min(one.until, other.until) - other.since) / 1e6
                    yield f"{group}: {partition} at {one.who} and {other.who} for {ms:.1f} ms"


class Commit(NamedTuple):
    """A commit that was confirmed."""

    group: str
    partition: int
    offset: int
    asked: int
    confirmed: int


def _commits(lines: Iterable[Line]) -> Iterator[Commit]:
    groups = _groups(lines)
    asked: dict[tuple[Life, str], int] = {}
    for line in lines:
        if line.what == "committing":
            asked[_life(line), str(line.more)] = line.at_ns
        elif line.what == "committed":
            since = asked[_life(line), str(line.more)]
            for partition, offset in line.more["offsets"].items():
                yield Commit(groups[_life(line)], int(partition), offset, since, line.at_ns)


def _by_partition(commits: Iterable[Commit]) -> dict[tuple[str, int], list[Commit]]:
    found: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for commit in commits:
        found[commit.group, commit.partition].append(commit)
    return found


def _moved_back(lines: Sequence[Line], final: dict[str, dict[int, int]]) -> Iterator[str]:
    for (group, partition), commits in _by_partition(_commits(lines)).items():
        for commit in commits:
            before = [other for other in commits if other.confirmed < commit.asked]
            highest = max((other.offset for other in before), default=-1)
            if commit.offset < highest:
                yield f"{group} {partition}: {commit.offset} after {highest}"
        at_last = final.get(group, {}).get(partition, -1)
        highest = max(commit.offset for commit in commits)
        if at_last < highest:
            yield f"{group} {partition}: {at_last} at last, {highest} was confirmed"


def _wrong_starts(lines: Sequence[Line]) -> Iterator[str]:
    """The first read after an assignment, and reads that leave something out."""
    groups = _groups(lines)
    commits = _by_partition(_commits(lines))
    expected: dict[tuple[Life, int], int] = {}
    fresh: dict[tuple[Life, int], int] = {}
    for line in lines:
        who = _life(line)
        if line.what == "assigned":
            for partition in line.more["partitions"]:
                fresh[who, partition] = line.at_ns
        elif line.what == "read":
            partition, (first, last) = line.more["partition"], line.more["offsets"]
            since = fresh.pop((who, partition), None)
            known = commits.get((groups[who], partition), [])
            if since is None:
                if first != expected[who, partition]:
                    yield f"{who} {partition}: {first}, not {expected[who, partition]}"
            else:
                least = max((each.offset for each in known if each.confirmed < since), default=0)
                most = max(_asked_before(lines, groups, (groups[who], partition), line), default=0)
                if not least <= first <= max(most, least):
                    yield f"{who} {partition}: {first}, committed {least} to {most}"
            expected[who, partition] = last + 1


def _asked_before(
    lines: Iterable[Line], groups: dict[Life, str], place: tuple[str, int], until: Line
) -> Iterator[int]:
    for line in lines:
        if line.at_ns > until.at_ns:
            return
        if line.what == "committing" and groups[_life(line)] == place[0]:
            offset = line.more["offsets"].get(str(place[1]))
            if offset is not None:
                yield offset


def _unread(lines: Sequence[Line], final: Final) -> Iterator[str]:
    groups = _groups(lines)
    spans: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        if line.what == "read":
            first, last = line.more["offsets"]
            spans[groups[_life(line)], line.more["partition"]].append((first, last))
    for (group, partition), read in spans.items():
        reached = 0
        for first, last in sorted(read):
            if first > reached:
                yield f"{group} {partition}: {reached} to {first - 1}"
            reached = max(reached, last + 1)
        end = len(final.input[partition])
        if reached < end:
            yield f"{group} {partition}: {reached} to {end - 1}"


# -- transactions ----------------------------------------------------------------------------------


def _outcomes(lines: Iterable[Line]) -> dict[str, tuple[Line, set[str]]]:
    """By transaction: the line that began it, and what was said of its end: ``asked`` for commit,
    ``commit``, ``abort``."""
    found: dict[str, tuple[Line, set[str]]] = {}
    for line in lines:
        name = line.more.get("transaction")
        if line.what == "begun":
            found[str(name)] = (line, set())
        elif name is not None and line.what in ("commit", "abort"):
            found[name][1].add(line.what)
        elif line.what == "ending" and line.more["reason"] == "commit":
            found[str(name)][1].add("asked")
    return found


def _judged(name: str, said: set[str], seen: int, planned: int) -> Iterator[str]:
    if seen not in (0, planned):
        yield f"{name} is torn: {seen} of {planned} records"
    elif seen and ("abort" in said or "asked" not in said):
        yield f"{name} was not committed, and its records are read"
    elif not seen and "commit" in said:
        yield f"{name} was committed, and its records are lost"


def _transfers(lines: Iterable[Line], found: Contents) -> Iterator[str]:
    seen: dict[str, set[str]] = defaultdict(set)
    for records in found.values():
        for _, value in records:
            seen[value.partition("|")[0]].add(value)
    outcomes = _outcomes(lines)
    for name, (line, said) in outcomes.items():
        if "taking" in line.more:
            continue
        planned = {
            f"{name}|{partition}|{offset}|{copy}"
            for partition, first in line.more["first"].items()
            for offset in range(first, line.more["behind"][partition])
            for copy in range(COPIES)
        }
        values = seen.pop(name, set())
        yield from _judged(name, said, len(values & planned), len(planned))
        yield from (f"{value} was never written" for value in values - planned)
    yield from (f"{name} was never begun" for name in seen)


def _not_once(final: Final) -> Iterator[str]:
    counts: dict[tuple[int, int, int], int] = defaultdict(int)
    for records in final.output.values():
        for _, value in records:
            _, partition, offset, copy = value.split("|")
            counts[int(partition), int(offset), int(copy)] += 1
    for partition, records in final.input.items():
        for offset, _ in records:
            for copy in range(COPIES):
                count = counts.pop((partition, offset, copy), 0)
                if count != 1:
                    yield f"{partition}-{offset} copy {copy}: {count} times"
    yield from (f"{place} is no input" for place in counts)


def _output_disorder(found: Contents) -> Iterator[str]:
    for records in found.values():
        last: dict[tuple[str, str], int] = defaultdict(lambda: -1)
        for at, value in records:
            _, partition, offset, copy = value.split("|")
            if int(offset) < last[partition, copy]:
                yield f"{value} at {at} after {last[partition, copy]}"
            last[partition, copy] = int(offset)


def _rivals(lines: Iterable[Line], found: Contents) -> Iterator[str]:
    seen: dict[str, list[int]] = defaultdict(list)
    for partition, records in found.items():
        for _, value in records:
            seen[value].append(partition)
    for name, (line, said) in _outcomes(lines).items():
        if "taking" in line.more:
            where = seen.pop(name, [])
            yield from _judged(name, said, len(where), PARTITIONS)
            if len(set(where)) != len(where):
                yield f"{name} is there twice"
    yield from (f"{name} was never begun" for name in seen)


def _fenced(lines: Iterable[Line]) -> Iterator[str]:
    """A commit asked for after another one took the id."""
    asked_at: dict[str, int] = {}
    took: list[tuple[str, int, int]] = []
    for line in lines:
        more: dict[str, Any] = line.more
        if line.what == "taking":
            asked_at[more["taking"]] = line.at_ns
        elif line.what == "took":
            took.append((more["taking"], asked_at[more["taking"]], line.at_ns))
    since = {name: at for name, _, at in took}
    for line in lines:
        if line.what == "ending":
            asked_at[line.more["transaction"]] = line.at_ns
        elif line.what == "commit":
            mine, _, _ = line.more["transaction"].rpartition(".")
            if mine not in since:
                continue
            at = asked_at[line.more["transaction"]]
            for other, asked, done in took:
                if other != mine and since[mine] < asked and done < at:
                    yield f"{line.more['transaction']} after {other} took the id"


def _slow_starts(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if line.what == "ready" and line.more["ms"] > READY_MS:
            yield f"{line.more['ms']} ms"
