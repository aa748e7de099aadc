"""At start, compares the logs with the delivery state of share groups, and logs what was lost."""

from __future__ import annotations

import logging
from typing import Final

from sharegroup.broker.coordination.share_groups_view import ShareGroupsView
from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.topics import Topics
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.log import OwnedLog
from sharegroup.model.printable import last_word
from sharegroup.model.store import TopicStore

logger = logging.getLogger("sharegroup.broker")

OFFSETS_BELIEVED_MAX: Final = 2**31 - 1
"""How many offsets a log may end before the offsets that a share group has seen: it cannot have
lost more in one segment. A larger gap means that the state is wrong, and the log is left as it is.
"""


async def give_up_seen_offsets(store: TopicStore, topics: Topics, state: ShareStateLog) -> None:
    """If a log has lost its tail, continue it after the last offset that share groups have seen.

    An offset names one record for ever. If lost offsets were used again, a group would take new
    records for finished ones.

    Raises:
        KafkaStorageError: the state cannot be read, or the disk failed.
    """
    seen: dict[TopicPartition, int] = {}
    for where, end in (await state.offsets_seen()).items():
        name = topics.name_of(where.topic_id)
        if name is None:
            continue
        key = TopicPartition(name, where.partition)
        log: OwnedLog | None = store.find_log(key)
        if log is None or log.failure is not None or end <= log.log_end_offset:
            continue
        if end - log.log_end_offset > OFFSETS_BELIEVED_MAX:
            logger.error(
                "%s ends at offset %d, but the start offset of a share group is %d, which is "
                "impossible; reset the group's offsets (sharegroup groups reset-offsets)",
                key,
                log.log_end_offset,
                end,
            )
            continue
        seen[key] = end
    await store.give_up_offsets(seen)


async def say_lost_state(groups: ShareGroupsView, state: ShareStateLog) -> None:
    """Log each group that has lost its delivery state of some partitions, and how to repair it.
    Also log the groups that have lost only the last changes of their state.

    Raises:
        KafkaStorageError: the state cannot be read.
    """
    for shard in state.shards:
        behind = sorted({key.group_id for key in await shard.behind()})
        if behind:
            logger.error(
                "records of the delivery state of share groups are damaged (state partition %d): "
                "what these groups have finished since then may be delivered again: %s",
                shard.partition,
                ", ".join(behind),
            )
    for group_id in groups.group_ids():
        lost = [
            str(TopicPartition(topic.name, partition))
            for topic in groups.state_partitions(group_id)
            for partition in topic.partitions
            if not await state.knows(SharePartitionKey(group_id, topic.topic_id, partition))
        ]
        if lost:
            logger.error(
                "the delivery state of share group %s is lost in %s: no records are delivered. "
                "Stop its members, then reset it with `sharegroup groups reset-offsets "
                "--all-topics --to-earliest --execute %s` (all records are redelivered), or with "
                "--to-latest (only new records are delivered)",
                group_id,
                ", ".join(lost),
                last_word(group_id),
            )
