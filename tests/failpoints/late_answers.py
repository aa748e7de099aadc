"""Looks into a history whether a broker that stood still has said yes too late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

FINAL: Final = "accept", "reject"
Where = tuple[str, str, int, int]
"""Group, topic, partition, offset."""


class _Given(NamedTuple):
    """A record was delivered."""

    member: str
    since_ms: float
    polled_ms: float
    count: int


class _Taken(NamedTuple):
    """An acknowledgement of a record was taken; it had this delivery count."""

    where: Where
    kind: str
    member: str
    asked_ms: float
    count: int


def late_answers(lines: Iterable[str], end_ms: float) -> Iterator[str]:
    """A line for each record that a member got after its acknowledgement had been asked for, though
    that was taken: asked for before a stop ended, and taken after it. So what was taken was not in
    the log when the other broker read it.

    `sharegroup check` cannot tell, where locks may have been lost and a client fetches ahead: the
    delivery may be an earlier one that it returns late. Here that has a lower delivery count.

    Args:
        end_ms: of the stop, by the clock of the history.
    """
    asked: dict[int, dict[str, Any]] = {}
    given: dict[Where, list[_Given]] = {}
    taken: list[_Taken] = []
    for line in lines:
        event = json.loads(line)
        if event["op"] in ("poll", "ack"):
            asked[event["n"]] = event
        elif event["op"] == "polled":
            poll = asked[event["n"]]
            since_ms = event.get("since", poll["t"])
            for *run, count in event["acquired"]:
                for where in _records(poll["group"], run):
                    one = _Given(poll["member"], since_ms, poll["t"], count)
                    given.setdefault(where, []).append(one)
        elif event["op"] == "acked" and event["t"] > end_ms:
            ack = asked[event["n"]]
            if ack["t"] < end_ms:
                taken += _taken(ack, event["results"], given)
    for had in taken:
        for one in _again(had, given[had.where]):
            yield f"{had.kind} of {had.where} by {had.member} was taken; {one.member} got it"


def _again(had: _Taken, given: Iterable[_Given]) -> Iterator[_Given]:
    for one in given:
        polled_again = one.polled_ms > had.asked_ms and one.count >= had.count
        if polled_again or one.since_ms > had.asked_ms:
            yield one


def _records(group: str, run: Iterable[Any]) -> Iterator[Where]:
    topic, partition, first, last = run
    for offset in range(first, last + 1):
        yield group, topic, partition, offset


def _taken(
    ack: dict[str, Any], results: Iterable[str], given: dict[Where, list[_Given]]
) -> Iterator[_Taken]:
    for (*run, kind), result in zip(ack["acks"], results, strict=True):
        if result != "ok" or kind not in FINAL:
            continue
        for where in _records(ack["group"], run):
            mine = [one.count for one in given[where] if one.member == ack["member"]]
            yield _Taken(where, kind, ack["member"], ack["t"], mine[-1])
