"""How a member moves from what it owns to what the target assignment gives it (KIP-848, Kafka class
CurrentAssignmentBuilder).

A partition changes hands in three steps. Its owner is told to give it back (UNREVOKED_PARTITIONS).
The owner says in a heartbeat that it owns it no more. Only then does a heartbeat of the new owner
get it, which waited meanwhile (UNRELEASED_PARTITIONS). So no partition has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from sharegroup.groups.consumer.member import Member, MemberState
from sharegroup.groups.consumer.records import Held
from sharegroup.groups.records import Assignment

Owned: TypeAlias = Mapping[UUID, Set[int]]
"""What a member says it owns."""


class Goal(NamedTuple):
    """What a heartbeat reconciles a member to."""

    epoch: int
    """The assignment epoch."""
    target: Assignment
    """What the assignor wants the member to have."""
    subscribed: Collection[UUID]
    """The topics that the member subscribes to now: the target may be older."""
    owned: Owned | None
    """What the member says it owns; None when it says nothing."""
    is_taken: Callable[[UUID, int], bool]
    """Whether another member owns a partition or has yet to give it back."""
    subscription_changed: bool
    """Whether this heartbeat changes the member's subscription."""


def reconcile(member: Member, goal: Goal) -> Member:
    """The member after this heartbeat; the same object if nothing changes.

    The member's state must be known: a member in the state UNKNOWN is fenced unless it owns
    nothing, and is then treated as new.
    """
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _says_it_owns(goal.owned, member.revoking):
            return _pruned(member, goal) if goal.subscription_changed else member
        return _next(member, goal)
    if member.is_reconciled_to(goal.epoch):
        return _pruned(member, goal) if goal.subscription_changed else member
    return _next(member, goal)


def _next(member: Member, goal: Goal) -> Member:
    """One step towards the target."""
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, held in member.assigned.items():
        target = goal.target.get(topic_id, ()) if topic_id in goal.subscribed else ()
        for partition, epoch in held.items():
            into = kept if partition in target else revoking
            into.setdefault(topic_id, {})[partition] = epoch
    if revoking and _says_it_owns(goal.owned, revoking):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    waits = False
    for topic_id, partitions in goal.target.items():
        if topic_id not in goal.subscribed:
            continue
        for partition in partitions:
            if partition in kept.get(topic_id, ()):
                continue
            if goal.is_taken(topic_id, partition):
                waits = True
            else:
                kept.setdefault(topic_id, {})[partition] = goal.epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, goal.epoch, state, kept, {})


def _pruned(member: Member, goal: Goal) -> Member:
    """The member without the topics that it subscribes to no more: the next target assignment may
    be a while away (KIP-1263), and the member must not read them until then."""
    gone = {t: held for t, held in member.assigned.items() if t not in goal.subscribed}
    if not gone:
        return member
    kept = {t: held for t, held in member.assigned.items() if t not in gone}
    revoking = {
        topic_id: {**member.revoking.get(topic_id, {}), **gone.get(topic_id, {})}
        for topic_id in {*member.revoking, *gone}
    }
    if _says_it_owns(goal.owned, revoking):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return _moved(member, member.epoch, member.state, kept, {})


def _says_it_owns(owned: Owned | None, partitions: Held) -> bool:
    """Whether the member owns one of these partitions as far as we know."""
    if owned is None:
        return True
    return any(
        not owned.get(topic_id, set()).isdisjoint(held) for topic_id, held in partitions.items()
    )


def _moved(
    member: Member, epoch: int, state: MemberState, assigned: Held, revoking: Held
) -> Member:
    moved = replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=_tidy(assigned),
        revoking=_tidy(revoking),
    )
    settled = replace(moved, previous_epoch=member.previous_epoch)
    return member if settled == member else moved


def _tidy(held: Held) -> Held:
    return {
        topic_id: dict(sorted(held[topic_id].items()))
        for topic_id in sorted(held)
        if held[topic_id]
    }
