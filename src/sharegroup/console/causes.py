"""Why a queue stands still: what can be said from what the broker tells."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.client.admin.descriptions import MemberDescription

OLD_MS: Final = 60_000
"""A record that waits for so long, or is held for so long, is worth a word."""
_HANG: Final = (
    "their handlers take long, or hang. Restart a member that hangs: a record that is only "
    "released may come back to it."
)
_NAMED: Final = 3
"""Partitions that a sentence names."""


_CAUSES: Final = {
    "delivery-limit": "delivery limit",
    "released": "delivery limit: released at the last delivery",
    "lock-expired": "delivery limit: the last lock ended",
    "session-ended": "delivery limit: the last member left",
    "unknown": "not known",
    "expired": "expired before it was finished",
    "rejected": "rejected",
    "operator": "given up by an operator",
    "purged": "purged",
    "damaged": "damaged on disk",
    "deleted": "deleted",
    "retention-cap": "deleted by retention",
}


class QueueState(NamedTuple):
    """What the sentences are made of. Counts are of records; None: the broker does not tell."""

    members: int
    paused: bool
    lag: int
    in_flight: int | None
    delayed: int | None
    dead: int | None
    oldest_age_ms: int | None
    finished_per_s: float | None
    """Over the last minute; None: not known before the second look."""
    damaged: int
    blocked: int = 0
    silent: int = 0
    """Members that have missed a heartbeat."""
    silences: tuple[str, ...] = ()
    """A sentence about each of them."""
    unassigned: tuple[str, ...] = ()
    """Partitions with unfinished records that no member has."""
    left: int = 0
    """Records that members hold which have left the group."""
    letters_lack: str | None = None
    """Why dead letters cannot be written; None: not known."""
    forgotten: int = 0
    """Records that were given up lately, and have no letter."""


class Status(NamedTuple):
    """What is wrong with a queue, in a few words.

    Attributes:
        rank: queues are sorted by it, the highest first; 0: nothing is wrong.
        text: empty if nothing is wrong.
    """

    rank: int
    text: str


def status_of(queue: QueueState) -> Status:
    """The worst that is known. The rules stand in docs/console.md."""
    old_ms = queue.oldest_age_ms or 0
    still = old_ms > OLD_MS and queue.finished_per_s == 0
    for rank, holds, text in (
        (9, queue.damaged, f"{queue.damaged:,} lost to damage"),
        (8, queue.lag and not queue.members and not queue.paused, "no member"),
        (8, queue.lag and queue.silent >= queue.members > 0, _silent_text(queue)),
        (7, queue.dead, f"{count(queue.dead or 0, 'dead letter')} waiting"),
        (6, queue.blocked, f"{queue.blocked:,} blocked"),
        (5, queue.lag and queue.silent, _silent_text(queue)),
        (4, still and _moves_not(queue) and queue.in_flight, _held_text(queue)),
        (3, still and _moves_not(queue), f"members ask for none, oldest {minutes(old_ms)}"),
        (2, queue.paused, "paused"),
        (1, old_ms > OLD_MS and not still, f"oldest {minutes(old_ms)}"),
    ):
        if holds:
            return Status(rank, text)
    return Status(0, "")


def _moves_not(queue: QueueState) -> bool:
    """Whether members could finish something and do not."""
    rests = bool(queue.delayed) and (queue.delayed or 0) >= queue.lag
    return bool(queue.lag) and not rests and not queue.paused


def _silent_text(queue: QueueState) -> str:
    return f"{queue.silent:,} of {count(queue.members, 'member')} silent"


def _held_text(queue: QueueState) -> str:
    return (
        f"{queue.in_flight or 0:,} held, none finishes, oldest {minutes(queue.oldest_age_ms or 0)}"
    )


def likely_causes(queue: QueueState) -> list[str]:
    """Sentences, the most likely cause first; none if the queue moves."""
    found: list[str] = []
    if queue.paused:
        found.append("The group is paused: resume it, and records are delivered again.")
    found += _of_members(queue)
    if queue.blocked:
        found.append(
            f"{count(queue.blocked, 'record')} failed and hold their keys until an operator "
            "decides (share.ordering.on.failure=block)."
        )
    if queue.dead:
        found.append(waiting_text(queue.dead, queue.letters_lack))
    if queue.damaged:
        found.append(f"{count(queue.damaged, 'record')} are lost to damage on disk.")
    old = queue.oldest_age_ms is not None and queue.oldest_age_ms > OLD_MS
    if old and not found and queue.finished_per_s == 0:
        found += _still(queue)
    if queue.forgotten:
        found.append(
            f"{count(queue.forgotten, 'record')} given up lately, and no letter says why: “Set up "
            "dead letters …” keeps those to come."
        )
    return found


def _of_members(queue: QueueState) -> list[str]:
    found: list[str] = []
    if queue.lag and not queue.members:
        found.append("No member consumes: records wait until a worker joins the group.")
    if queue.left:
        found.append(
            f"{count(queue.left, 'record')} held by a member that has left: delivered again when "
            "the lock ends."
        )
    if queue.lag:
        found += queue.silences
    if queue.members and queue.unassigned and not queue.paused:
        found.append(
            f"No member has {_named(queue.unassigned)}: records wait there. A member may have been "
            "killed, and its session has yet to end."
        )
    return found


def _still(queue: QueueState) -> list[str]:
    if queue.in_flight and queue.in_flight >= queue.lag - (queue.delayed or 0):
        return [f"Members hold all records that are due: {_HANG}"]
    if queue.delayed and queue.delayed >= queue.lag:
        return ["All records rest until they are due."]
    if queue.in_flight:
        return [f"Members hold records and finish none: {_HANG}"]
    return ["Members ask for no records."]


def silence_text(member: MemberDescription) -> str:
    """About a member that has missed a heartbeat."""
    return (
        f"Member {member.member_id[:8]} ({member.client_id} at {member.client_host.lstrip('/')}) "
        f"was last heard of {(member.silent_ms or 0) // 1000} s ago: it may have been killed. Its "
        f"partitions go to others in {(member.session_left_ms or 0) // 1000 + 1} s at most."
    )


def waiting_text(letters: int, why: str | None) -> str:
    """About dead letters that cannot be written."""
    return (
        f"{count(letters, 'dead letter')} cannot be written yet{'' if why is None else f': {why}'}."
    )


def _named(partitions: tuple[str, ...]) -> str:
    more = len(partitions) - _NAMED
    return ", ".join(partitions[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def said_of(cause: str | None) -> str | None:
    """One cause of a failure in the words that all pages use."""
    return None if cause is None else _CAUSES.get(cause, cause)


def minutes(ms: int) -> str:
    """Such as ``3 min``, in one unit."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= size:
            return f"{ms // size:,} {unit}"
    return f"{ms // 1000} s"


def count(number: int, noun: str) -> str:
    """Such as ``2 records``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
