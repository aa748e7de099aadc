"""Why a queue stands still: what can be said from what the broker tells."""

from __future__ import annotations

from typing import Final, NamedTuple

OLD_MS: Final = 60_000
"""A record that waits for so long is worth a word."""


class QueueState(NamedTuple):
    """What the sentences are made of. Counts are of records; None: the broker does not tell."""

    members: int
    paused: bool
    lag: int
    in_flight: int | None
    delayed: int | None
    dead: int | None
    blocked: int
    oldest_age_ms: int | None
    finished_per_s: float
    unassigned: int
    """Partitions with unfinished records that no member has."""
    damaged: int


def likely_causes(queue: QueueState) -> list[str]:
    """Sentences, the most likely cause first; none if the queue moves."""
    found: list[str] = []
    if queue.paused:
        found.append("The group is paused: resume it, and records are delivered again.")
    if queue.lag and not queue.members:
        found.append("No member consumes: records wait until a worker joins the group.")
    if queue.members and queue.unassigned and not queue.paused:
        found.append(
            f"{_count(queue.unassigned, 'partition')} with records belong to no member: a member "
            "may have been killed, and its session has yet to end."
        )
    if queue.blocked:
        found.append(
            f"{_count(queue.blocked, 'record')} failed and hold their keys until an operator "
            "decides (share.ordering.on.failure=block)."
        )
    if queue.dead:
        found.append(
            f"{_count(queue.dead, 'dead letter')} cannot be written yet: the broker's log says "
            "what its topic lacks."
        )
    if queue.damaged:
        found.append(f"{_count(queue.damaged, 'record')} are lost to damage on disk.")
    old = queue.oldest_age_ms is not None and queue.oldest_age_ms > OLD_MS
    if old and not found and not queue.finished_per_s:
        found += _still(queue)
    return found


def _still(queue: QueueState) -> list[str]:
    if queue.in_flight and queue.in_flight >= queue.lag - (queue.delayed or 0):
        return ["Members hold all records that are due: their handlers take long, or hang."]
    if queue.delayed and queue.delayed >= queue.lag:
        return ["All records rest until they are due."]
    if queue.in_flight:
        return ["Members hold records and finish none: their handlers take long, or hang."]
    return ["Members ask for no records."]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
