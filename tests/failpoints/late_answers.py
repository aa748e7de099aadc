"""Looks into a history whether a broker that stood still has said yes too late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

FINAL: Final = "accept", "reject"
Where = tuple[str, str, int, int]
"""Group, topic, partition, offset."""


class _Ack(NamedTuple):
    member: str
    asked_ms: float
    places: list[tuple[Where, str]]


def late_answers(lines: Iterable[str], begin_ms: float, end_ms: float) -> Iterator[str]:
    """A line for each record whose acknowledgement was asked for before a stop ended and taken
    after it, though another broker had given the record to another member meanwhile. So what was
    taken cannot have been in the log when the other broker read it.

    `sharegroup check` allows this, where locks may have been lost: a late answer for a record that
    is done changes nothing. Here it is known who was asked.

    Args:
        begin_ms, end_ms: of the stop, by the clock of the history.
    """
    asked: dict[int, dict[str, Any]] = {}
    given: dict[Where, list[tuple[str, float]]] = {}
    for line in lines:
        event = json.loads(line)
        if event["op"] in ("poll", "ack"):
            asked[event["n"]] = event
        elif event["op"] == "polled" and begin_ms < event["t"] < end_ms:
            poll = asked[event["n"]]
            since_ms = event.get("since", poll["t"])
            for topic, partition, first, last, _ in event["acquired"]:
                for offset in range(first, last + 1):
                    where = poll["group"], topic, partition, offset
                    given.setdefault(where, []).append((poll["member"], since_ms))
        elif event["op"] == "acked" and event["t"] > end_ms:
            ack = _ack(asked[event["n"]], event["results"])
            if ack.asked_ms < end_ms:
                yield from _late(ack, given)


def _ack(asked: dict[str, Any], results: Iterable[str]) -> _Ack:
    places = [
        ((asked["group"], topic, partition, offset), kind)
        for (topic, partition, first, last, kind), result in zip(
            asked["acks"], results, strict=True
        )
        if result == "ok" and kind in FINAL
        for offset in range(first, last + 1)
    ]
    return _Ack(asked["member"], asked["t"], places)


def _late(ack: _Ack, given: dict[Where, list[tuple[str, float]]]) -> Iterator[str]:
    for where, kind in ack.places:
        for member, since_ms in given.get(where, ()):
            if member != ack.member and since_ms > ack.asked_ms:
                yield f"{kind} of {where} by {ack.member} was taken after {member} had got it"
