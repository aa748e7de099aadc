"""Share groups: their progress at the source, and how it comes to the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sharegroup.client.admin.descriptions import PartitionRecords
from sharegroup.client.clock import wall_ms
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.move.progress import Progress, progress_of, translated
from sharegroup.move.share_state_requests import NO_LEADER, epochs_of, write_progress
from sharegroup.move.side import MoveRefused, Places, Side, settled
from sharegroup.share.record_state import RecordState

Progresses = Mapping[TopicPartition, Progress]


async def read_progress(source: Side, group: str, topics: Collection[str]) -> Progresses:
    """The group's progress in these topics; none if there is no such group.

    Raises:
        MoveRefused: it will change by itself: records wait for a transaction, or for their dead
            letters.
        KafkaError: it cannot be read.
    """
    found = {}
    now_ms = wall_ms()
    for where, records in (await _states(source, group)).items():
        if where.topic not in topics:
            continue
        if records.error is not None:
            raise records.error
        if any(one.archiving for one in (*records.ranges, *records.given_up)):
            raise MoveRefused(
                f"group {group} has dead letters to write for records of {where}: when they are "
                "written, run this again"
            )
        held = [one for one in records.ranges if one.state is RecordState.ACQUIRED]
        if any(one.lock_ms is None for one in held):
            raise MoveRefused(
                f"group {group} has acknowledgements in an open transaction in {where}: end it, "
                "and run this again"
            )
        found[where] = progress_of(records, now_ms)
    return found


def of_copy(progress: Progresses, places: Places) -> Progresses:
    """The same progress in the copies of the partitions."""
    return {where: translated(one, places[where]) for where, one in progress.items()}


async def missing(target: Side, group: str, wanted: Progresses) -> Progresses:
    """What of this progress the target does not have yet.

    Raises:
        MoveRefused: the group has worked at the target, and has other progress there.
        KafkaError: the target does not tell, or may not tell us.
    """
    there = await progress_at(target, group, wanted)
    other = {at: one for at, one in wanted.items() if at not in there or not one.same_as(there[at])}
    begun = await _keys(target, group, other.keys() & there.keys())
    epochs = await epochs_of(target.cluster, begun.values())
    for where, key in begun.items():
        if epochs[key].leader != NO_LEADER:
            raise MoveRefused(
                f"group {group} has worked on {where} at {target.servers} already, and is not "
                f"where it is at the source. To take over the source's progress: sharegroup -b "
                f"{target.servers} groups delete {group}, and run this again"
            )
    return other


async def progress_at(side: Side, group: str, wanted: Collection[TopicPartition]) -> Progresses:
    """The group's progress there in these partitions, as far as it has any."""
    now_ms = wall_ms()
    found = await _states(side, group)
    return {at: progress_of(one, now_ms) for at, one in found.items() if at in wanted}


async def _states(side: Side, group: str) -> Mapping[TopicPartition, PartitionRecords]:
    try:
        return await side.admin.describe_record_states(group)
    except errors.GroupIdNotFound:
        return {}


async def write(target: Side, group: str, progress: Progresses) -> None:
    """Let the group begin at the target with this progress. It must have no members there.

    Raises:
        KafkaError: not all was written; a second call begins anew.
    """
    starts = {where: one.start for where, one in progress.items()}
    if not starts:
        return

    async def begin() -> None:
        answers = await target.admin.alter_share_group_offsets(group, starts)
        for error in answers.values():
            if error is not None:
                raise error

    await settled(target, begin)
    keys = await _keys(target, group, [at for at, one in progress.items() if one.rows])
    epochs = await epochs_of(target.cluster, keys.values())
    for where, key in keys.items():
        await write_progress(target.cluster, key, epochs[key].state, progress[where])


async def _keys(
    target: Side, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, SharePartitionKey]:
    return {
        where: SharePartitionKey(
            group, (await target.cluster.topic(where.topic)).topic_id, where.partition
        )
        for where in sorted(partitions)
    }
