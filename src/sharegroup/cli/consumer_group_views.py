"""The rows and columns that ``sharegroup groups describe`` shows of a consumer group."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import (
    ConsumerGroupDescription,
    ConsumerGroupMemberDescription,
    OffsetSpec,
)
from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.cooperative.intervals import Interval, size
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition

RANGES_SHOWN: Final = 5


def state_of(group: ConsumerGroupDescription, address: str) -> dict[str, Any]:
    """The state, as columns or JSON."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": f"{address} (id {group.coordinator})",
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "member_count": len(group.members),
    }


def member_row(member: ConsumerGroupMemberDescription) -> dict[str, Any]:
    """A member, as columns or JSON."""
    topics = [*member.topics, *([member.pattern] if member.pattern else [])]
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "rack": member.rack_id,
        "epoch": member.member_epoch,
        "topics": topics,
        "assignment": [
            {"topic": where.topic, "partition": where.partition}
            | ({"key_ranges": member.key_ranges[where]} if where in member.key_ranges else {})
            for where in member.assignment
        ],
    }


def key_space_text(member: dict[str, Any]) -> str:
    """The part of the hash space that a member has in partitions that it shares."""
    return ", ".join(
        f"{one['topic']}:{one['partition']} {size(one['key_ranges']) / (HASH_MAX + 1):.0%}"
        for one in member["assignment"]
        if "key_ranges" in one
    )


def ranges_text(ranges: Sequence[Interval]) -> str:
    """How many ranges are committed after the offset, and the first ones."""
    first = [f"{a}-{b}" if a < b else f"{a}" for a, b in ranges[:RANGES_SHOWN]]
    more = ["…"] if len(ranges) > RANGES_SHOWN else []
    return f"{len(ranges)}: {', '.join([*first, *more])}" if ranges else ""


async def offset_rows(admin: Admin, group: ConsumerGroupDescription) -> list[dict[str, Any]]:
    """A row for each partition in which the group has committed, or that a member reads."""
    committed = await admin.list_consumer_group_offsets(group.group_id)
    owners: dict[TopicPartition, list[str]] = {}
    for one in group.members:
        for where in one.assignment:
            owners.setdefault(where, []).append(one.instance_id or one.member_id)
    wheres = sorted(committed.keys() | owners.keys())
    ends = await _ends(admin, wheres)
    rows = []
    for where in wheres:
        at, end = committed.get(where), ends.get(where)
        rows.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "committed": None if at is None else at.offset,
                "end": end,
                "lag": None if at is None or end is None else max(0, end - at.offset),
                "metadata": None if at is None else at.metadata,
                "leader_epoch": None if at is None or at.leader_epoch < 0 else at.leader_epoch,
                "ranges": [] if at is None else at.ranges,
                "member": ", ".join(owners[where]) if where in owners else None,
            }
        )
    return rows


async def _ends(admin: Admin, wheres: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the logs that exist. A topic may be gone while the group has offsets of it."""
    there = {
        topic.name: topic.partition_count
        for topic in await admin.list_topics(include_internal=True)
    }
    known = [where for where in wheres if where.partition < there.get(where.topic, 0)]
    try:
        found = await admin.list_offsets(known, OffsetSpec.LATEST) if known else {}
    except KafkaError:  # no right to a topic: the offsets are shown without their lag
        return {}
    return {where: one.offset for where, one in found.items()}
