"""How a member moves from what it owns to what the target assignment gives it (KIP-848, Kafka class
CurrentAssignmentBuilder).

A partition changes hands in three steps. Its owner is told to give it back (UNREVOKED_PARTITIONS).
The owner says in a heartbeat that it does not own the partition any more. Only then does the new
owner, which waited meanwhile (UNRELEASED_PARTITIONS), get the partition with a heartbeat. So no
partition has two owners. The same holds for each hash of a partition that members share (KIP-X).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from sharegroup.cooperative.intervals import Intervals, common, minus
from sharegroup.groups.consumer.member import ConsumerMember, ConsumerMemberState
from sharegroup.groups.consumer.parts import GatheredPartitions, overlap, part_of
from sharegroup.groups.consumer.records import Parts
from sharegroup.groups.records import Assignment

Owned: TypeAlias = Mapping[UUID, Set[int]]
"""The partitions that a member says it owns."""


class Goal(NamedTuple):
    """What a heartbeat reconciles a member to."""

    epoch: int
    """The assignment epoch."""
    target: Assignment
    """The partitions that the assignor wants the member to have."""
    subscribed: Collection[UUID]
    """The topics that the member subscribes to now: the target may be older."""
    owned: Owned | None
    """The partitions that the member says it owns; None when it says nothing about them."""
    taken: Callable[[UUID, int], Intervals]
    """The hashes of a partition that other members own or have yet to give back."""
    subscription_changed: bool
    """Whether this heartbeat changes the member's subscription."""
    target_parts: Parts
    owned_parts: Parts


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after this heartbeat; the same object if nothing changes.

    The member's state must be known: a member in the state UNKNOWN is fenced unless it owns
    nothing, and is then treated as new.
    """
    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        if _says_it_owns(goal, GatheredPartitions(member.revoking, member.revoking_parts)):
            return _pruned(member, goal) if goal.subscription_changed else member
        return _next(member, goal)
    if member.is_reconciled_to(goal.epoch):
        return _pruned(member, goal) if goal.subscription_changed else member
    return _next(member, goal)


def _next(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """One step towards the target."""
    kept, revoking = GatheredPartitions(), GatheredPartitions()
    for topic_id, held in member.assigned.items():
        target = goal.target.get(topic_id, ()) if topic_id in goal.subscribed else ()
        for partition, epoch in held.items():
            has = part_of(member.assigned_parts, topic_id, partition)
            wanted = part_of(goal.target_parts, topic_id, partition) if partition in target else ()
            if stays := has if has == wanted else common(has, wanted):
                kept.add(topic_id, partition, epoch, stays)
            if goes := () if has == wanted else minus(has, wanted):
                revoking.add(topic_id, partition, epoch, goes)
    if revoking and _says_it_owns(goal, revoking):
        return _moved(
            member, member.epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    waits = False
    for topic_id, partition, missing in _missing(goal, kept):
        taken = goal.taken(topic_id, partition)
        free = minus(missing, taken) if taken else missing
        if free == missing or (free and member.takes_ranges):
            kept.add(topic_id, partition, goal.epoch, free)
        waits |= free != missing
    state = ConsumerMemberState.UNRELEASED_PARTITIONS if waits else ConsumerMemberState.STABLE
    return _moved(member, goal.epoch, state, kept, GatheredPartitions())


def _missing(goal: Goal, kept: GatheredPartitions) -> Iterator[tuple[UUID, int, Intervals]]:
    """The partitions of the target, and their hashes, that the member does not have yet."""
    for topic_id, partitions in goal.target.items():
        if topic_id not in goal.subscribed:
            continue
        for partition in partitions:
            wanted = part_of(goal.target_parts, topic_id, partition)
            has = kept.part(topic_id, partition)
            if has != wanted:
                yield topic_id, partition, minus(wanted, has)


def _pruned(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member without the topics that it does not subscribe to any more: the next target
    assignment may be a while away (KIP-1263), and until then the member must not read them."""
    if member.assigned.keys() <= set(goal.subscribed):
        return member
    kept, revoking = (
        GatheredPartitions(),
        GatheredPartitions(member.revoking, member.revoking_parts),
    )
    for topic_id, held in member.assigned.items():
        into = kept if topic_id in goal.subscribed else revoking
        for partition, epoch in held.items():
            into.add(
                topic_id, partition, epoch, part_of(member.assigned_parts, topic_id, partition)
            )
    if _says_it_owns(goal, revoking):
        return _moved(
            member, member.epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    return _moved(member, member.epoch, member.state, kept, GatheredPartitions())


def _says_it_owns(goal: Goal, holding: GatheredPartitions) -> bool:
    """Whether the member owns something of ``holding``, as far as we know: it says so, or has said
    nothing else."""
    if goal.owned is None:
        return True
    return overlap(goal.owned, goal.owned_parts, holding.held, holding.parts)


def _moved(
    member: ConsumerMember,
    epoch: int,
    state: ConsumerMemberState,
    kept: GatheredPartitions,
    revoking: GatheredPartitions,
) -> ConsumerMember:
    assigned, assigned_parts = kept.tidy()
    leaving, leaving_parts = revoking.tidy()
    moved = replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=leaving,
        assigned_parts=assigned_parts,
        revoking_parts=leaving_parts,
    )
    settled = replace(moved, previous_epoch=member.previous_epoch)
    return member if settled == member else moved
