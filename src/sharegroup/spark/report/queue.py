"""The present state of a query's queue, as the broker reports it: the lag, the records that each
member holds, and the lock limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharegroup.client.admin.admin import Admin
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

LOCK_CONFIGS = ("share.partition.wide.record.locks", "share.partition.max.record.locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One share group. Partitions are written ``topic-partition``."""

    group_id: str
    exists: bool
    lag: Mapping[str, int]
    """Records that are not finished, if known."""
    held: Mapping[str, Mapping[str, int]]
    """Partition → member → records that it holds; empty if the broker does not report them."""
    members: tuple[str, ...]
    locks_max: int | None
    """The lock limit of one partition."""


async def ask(admin: Admin, group_id: str, topics: tuple[str, ...]) -> Queue:
    """Ask the broker.

    Raises:
        KafkaError: the broker refuses.
        BootstrapError: no broker can be reached.
    """
    try:
        group = (await admin.describe_share_groups([group_id]))[group_id]
    except GroupIdNotFound:
        return Queue(group_id=group_id, exists=False, lag={}, held={}, members=(), locks_max=None)
    known = await admin.list_share_group_offsets(group_id)
    places = [at for at in known if at.topic in topics]
    return Queue(
        group_id=group_id,
        exists=True,
        lag={str(at): lag for at in places if (lag := known[at].lag) is not None},
        held=await _held(admin, group_id, places),
        members=tuple(member.member_id for member in group.members),
        locks_max=await _locks_max(admin, group_id),
    )


async def _held(
    admin: Admin, group_id: str, places: list[TopicPartition]
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for at, records in (await admin.describe_record_states(group_id, places)).items():
        for one in records.ranges:
            if one.state is RecordState.ACQUIRED and one.member_id is not None:
                by_member = found.setdefault(str(at), {})
                count = one.last - one.first + 1
                by_member[one.member_id] = by_member.get(one.member_id, 0) + count
    return found


async def _locks_max(admin: Admin, group_id: str) -> int | None:
    """The wide limit of our broker if one is set, else Kafka's limit."""
    configs = await admin.describe_configs("group", group_id)
    for name in LOCK_CONFIGS:
        value = configs[name].value if name in configs else None
        if value is not None and value.isdecimal() and int(value) > 0:
            return int(value)
    return None
