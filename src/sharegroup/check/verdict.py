"""What a judge has to say of a history, and the events that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from sys import maxsize
from typing import Any, Final, NamedTuple

from sharegroup.check.history import CALLS, Event, events

ALWAYS: Final = "kill", "shaky", "calm"
"""Kinds of events that matter to everything."""
OF_GROUPS: Final = "settings", "leave", "owns"
"""Those that matter to all of a group."""
WAITING: Final = "L1", "L2"
"""Rules about polls that came back empty."""
WHOLE: Final = {"S7": ("reset", "starts"), "S13": ("reset", "fetched")}
"""Rule → kinds of events of a partition that matter to all its offsets; of others: ``reset``."""


class Violation(NamedTuple):
    """A rule that does not hold.

    Attributes:
        rule: as `S2`, see docs/correctness.md.
        line: of the history, where it shows.
        group: the share group; None: it is about a topic.
        topic: empty: it is about the whole group.
        other: the offset of another record that it is about.
    """

    rule: str
    line: int
    group: str | None
    topic: str
    partition: int
    first: int
    last: int
    text: str
    other: int | None = None

    def __str__(self) -> str:
        if not self.topic:
            return f"{self.rule} {self.group}: {self.text}"
        of = "" if self.group is None else f" of {self.group}"
        offsets = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.rule} {self.topic}:{self.partition}@{offsets}{of}: {self.text}"


class Verdict(NamedTuple):
    """What a history shows.

    Attributes:
        violations: the first ones.
        more: how many others there are.
        counts: kind of event → how many there are.
    """

    violations: list[Violation]
    more: int
    counts: dict[str, int]


def evidence(lines: Callable[[], Iterable[str | bytes]], of: Violation) -> list[tuple[int, Event]]:
    """The events of a history that concern a violation, up to the line where it shows.

    Args:
        lines: reads the history from its beginning. It is read twice.
    """

    def until() -> Iterator[tuple[int, Event]]:
        return takewhile(lambda one: one[0] <= of.line, events(lines()))

    calls = {event["n"] for event in _whole(until()) if "n" in event and _concerns(event, of)}
    return [
        (line, event)
        for line, event in until()
        if (event["n"] in calls if "n" in event else event["op"] in ALWAYS or _concerns(event, of))
    ]


def _whole(told: Iterable[tuple[int, Event]]) -> Iterator[Event]:
    """Each event; an answer together with its call."""
    calls: dict[int, Event] = {}
    for _, event in told:
        if event["op"] in CALLS:
            yield {**calls.pop(event["n"], {}), **event}
            continue
        if "n" in event:
            calls[event["n"]] = event
        yield event


def _concerns(event: Event, of: Violation) -> bool:
    """Whether it is about these offsets, or the whole group."""
    if of.group is not None and event.get("group", of.group) != of.group:
        return False
    if event["op"] in OF_GROUPS:
        return of.group is not None
    here = of.topic, of.partition
    for topic, partition, first, last in _runs(event, of.rule):
        if (topic, partition) == here and first <= of.last and last >= of.first:
            return True
        if (topic, partition) == here and of.other is not None and first <= of.other <= last:
            return True
    return False


def _runs(event: Event, rule: str) -> Iterator[tuple[Any, Any, int, int]]:
    """What an event is about: topic, partition, first and last offset each."""
    for name in "acquired", "acks", "offsets":
        for topic, partition, first, last, *_ in event.get(name, ()):
            yield topic, partition, first, last
    for topic, partition, offset, *_ in event.get("records", ()):
        yield topic, partition, offset, offset
    if rule in WAITING:
        for topic, partition in event.get("of", ()):
            yield topic, partition, 0, maxsize
    place = event.get("topic"), event.get("partition")
    if event["op"] == "gone":
        yield *place, event["first"], event["last"] if event["last"] >= 0 else maxsize
    elif event["op"] in WHOLE.get(rule, ("reset",)):
        yield *place, 0, maxsize
    elif "offset" in event:
        yield *place, event["offset"], event["offset"]
