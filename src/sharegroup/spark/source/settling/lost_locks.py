"""A batch that runs again after its locks were lost: finds the records that the group has finished
meanwhile, and applies the option ``onLostLocks`` to them.

A batch runs again when its query died before Spark had committed it. If the query was away for
longer than its locks lasted, other members may have got its records. Records that they have
finished are in a final state and never come again, so leaving them out loses nothing. Records that
other members only hold may come back to us, so they stay in the batch.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from sharegroup.client.admin.descriptions import PartitionRecords
from sharegroup.cooperative.intervals import size
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.share.record_state import TERMINAL
from sharegroup.spark.ranges import common, without
from sharegroup.spark.source.group_view import GroupQuestions
from sharegroup.spark.source.offsets import BatchOffset

log = logging.getLogger("sharegroup.spark")

PROCESS: Final = "process"
FAIL: Final = "fail"

Finished = dict[TopicIdPartition, list[OffsetRange]]


class LostLocks(SharegroupError):
    """Other members have finished records of a batch that is to run again."""


async def still_wanted(batch: BatchOffset, group: GroupQuestions, policy: str) -> BatchOffset:
    """The part of ``batch`` to process again.

    Args:
        policy: ``process``: keep all records; ``drop``: keep only the records that the group has
            not finished; ``fail``: raise if the group has finished some records.

    Raises:
        LostLocks: the group has finished some records of the batch, and the policy is to fail.
        KafkaError: the group's state cannot be read.
    """
    if policy == PROCESS or not batch.ranges:
        return batch
    places = {
        TopicPartition(batch.topics[key.topic_id], key.partition): key for key in batch.ranges
    }
    states = await group.record_states(places)
    for records in states.values():
        if records.error is not None:
            raise records.error
    finished: Finished = {
        places[where]: _finished(records) for where, records in states.items() if where in places
    }
    ranges = {key: without(own, finished.get(key, [])) for key, own in batch.ranges.items()}
    lost = batch.records - sum(map(size, ranges.values()))
    if not lost:
        return batch
    if policy == FAIL:
        raise LostLocks(_sentence(batch, finished, lost))
    log.warning("%d records of a batch that runs again are left out: the group is done", lost)
    return replace(batch, ranges={key: tuple(own) for key, own in ranges.items() if own})


def _finished(records: PartitionRecords) -> list[OffsetRange]:
    """The offsets before the window, and the offsets within it that are in a final state."""
    if records.start_offset is None:
        return []
    final = [OffsetRange(r.first, r.last) for r in records.ranges if r.state in TERMINAL]
    return [OffsetRange(0, records.start_offset - 1), *final] if records.start_offset else final


def _sentence(batch: BatchOffset, finished: Finished, lost: int) -> str:
    key, first = next(
        (key, parts[0].first)
        for key, own in sorted(batch.ranges.items())
        if (parts := common(own, finished.get(key, [])))
    )
    return (
        f"the batch runs again, and the group {batch.group_id} has finished {lost} of its records "
        f"meanwhile, the first {batch.topics[key.topic_id]}-{key.partition} offset {first}: write "
        '.option("onLostLocks", "process") to process them again, or "drop" to leave them out'
    )
