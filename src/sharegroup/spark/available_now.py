"""When a run that reads what is there now (Trigger.AvailableNow) has read it all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.client.share_member import ShareMember
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.acquiring import Targets
from sharegroup.spark.group import GroupView
from sharegroup.spark.locks import LOCK_MS_DEFAULT
from sharegroup.spark.subscription import Subscription

ASSIGNMENT_SECONDS: Final = 15.0
"""A member that still has no partitions after this time is one too many."""


async def is_read(
    targets: Targets,
    held: Mapping[TopicIdPartition, int],
    idle_s: float,
    member: ShareMember,
    group: GroupView,
    subscription: Subscription,
) -> bool:
    """Whether nothing before ``targets`` will come any more, after ``idle_s`` without records.

    Args:
        held: how many records of each partition we keep for later; the run does not wait for them.
    """
    if not targets:
        return True
    assigned = member.assignment
    if not assigned:  # Apache Kafka assigns a little after a member has joined
        return idle_s > ASSIGNMENT_SECONDS
    ours = {partition: end for partition, end in targets.items() if partition in assigned}
    lock_s = (member.lock_timeout_ms or LOCK_MS_DEFAULT) / 1000
    return await group.is_drained(subscription.topics, ours, held, idle_s, lock_s)
