"""Consumer groups: their committed offsets at the source, and in the copies of the partitions."""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.client.admin.offset_requests import committed_offsets
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.model.errors import UnstableOffsetCommit
from sharegroup.model.ids import TopicPartition
from sharegroup.move.side import MoveRefused, Places, Side, settled

Committed = Mapping[TopicPartition, OffsetAndMetadata]


async def read_committed(source: Side, group: str, topics: Mapping[str, int]) -> Committed:
    """The group's committed offsets in these topics.

    Args:
        topics: how many partitions each has. Others are not asked about: a transaction with offsets
            of theirs is no matter.

    Raises:
        MoveRefused: it has committed single records as well, or a transaction that has offsets of
            it has not ended.
        KafkaError: they cannot be read.
    """
    wanted = [TopicPartition(name, at) for name, count in topics.items() for at in range(count)]

    async def attempt() -> Committed:
        try:
            return await committed_offsets(
                source.cluster, MemberIdentity(group), wanted, with_ranges=True
            )
        except UnstableOffsetCommit:
            raise MoveRefused(
                f"consumer group {group} has offsets in an open transaction at {source.servers}: "
                "end it (sharegroup transactions list), and run this again"
            ) from None

    found = await settled(source, attempt)
    for where, one in found.items():
        if one.ranges:
            raise MoveRefused(
                f"consumer group {group} has committed records of {where} behind its committed "
                "offset, which cannot be moved: let its members finish what lies before them, or "
                "leave the group out"
            )
    return found


def of_copy(committed: Committed, places: Places) -> Committed:
    """The same places in the copies of the partitions."""
    return {
        where: OffsetAndMetadata(places[where].place(one.offset), metadata=one.metadata)
        for where, one in committed.items()
    }


async def missing(target: Side, group: str, wanted: Committed) -> Committed:
    """What of this the target does not have yet.

    Raises:
        MoveRefused: the group has committed other offsets there.
    """
    there = await target.admin.list_consumer_group_offsets(group)
    other = [at for at, one in wanted.items() if at in there and there[at].offset != one.offset]
    if other:
        raise MoveRefused(
            f"consumer group {group} has committed offset {there[other[0]].offset} of {other[0]} "
            f"at {target.servers}, where {wanted[other[0]].offset} is meant. To take over the "
            f"source's offsets: sharegroup -b {target.servers} groups delete {group}, and run this "
            "again"
        )
    return {where: one for where, one in wanted.items() if where not in there}


async def write(target: Side, group: str, committed: Committed) -> None:
    """Commit these offsets. The group must have no members.

    Raises:
        KafkaError: not all were committed.
    """
    if not committed:
        return

    async def commit() -> None:
        answers = await target.admin.alter_consumer_group_offsets(group, committed)
        for error in answers.values():
            if error is not None:
                raise error

    await settled(target, commit)
