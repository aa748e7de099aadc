"""What a judge has to say of a history, and the events that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from sharegroup.check.history import Event, events


class Violation(NamedTuple):
    """A rule that does not hold.

    Attributes:
        rule: as `S2`, see docs/correctness.md.
        line: of the history, where it shows.
        group: the share group; None: it is about a topic.
        topic: empty: it is about the whole group.
    """

    rule: str
    line: int
    group: str | None
    topic: str
    partition: int
    first: int
    last: int
    text: str

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

    calls = {event.get("n") for _, event in until() if _concerns(event, of)} - {None}
    return [
        (line, event)
        for line, event in until()
        if event.get("n") in calls or event["op"] == "kill" or _concerns(event, of)
    ]


def _concerns(event: Event, of: Violation) -> bool:
    """Whether it names these offsets."""
    if "group" in event and of.group is not None and event["group"] != of.group:
        return False
    here = of.topic, of.partition
    runs = [one[:4] for one in (*event.get("acquired", ()), *event.get("acks", ()))]
    runs += [[*one[:3], one[2]] for one in event.get("records", ())]
    if any((one[0], one[1]) == here and one[2] <= of.last and one[3] >= of.first for one in runs):
        return True
    if event["op"] == "produced":
        return event.get("partition") == of.partition and event.get("offset") == of.first
    return event["op"] == "reset" and (event["topic"], event["partition"]) == here
