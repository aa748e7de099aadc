"""OffsetForLeaderEpoch: where the records of a leader epoch end (KIP-101, KIP-320; Kafka classes
Partition, lastOffsetForLeaderEpoch, and LeaderEpochFileCache).

A single node leads every partition in one epoch from its first record on.
"""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import KafkaError
from sharegroup.model.log import ReadableLog
from sharegroup.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

NONE: Final = -1


async def offset_for_leader_epoch(
    parts: BrokerParts, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """One look-up per partition; each fails on its own."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [
                    await _end_offset(parts, context, topic.topic, part)
                    async for part in sliced(topic.partitions)
                ],
            )
            async for topic in sliced(request.topics)
        ]
    )


async def _end_offset(
    parts: BrokerParts, context: RequestContext, name: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    found = EpochEndOffset(partition=wanted.partition)
    try:
        if not context.access.allows(Operation.CLUSTER_ACTION, CLUSTER):  # a broker may always ask
            context.access.require_topic(Operation.DESCRIBE, name)
        log: ReadableLog = parts.topics.log(name, wanted.partition)
        parts.leadership.check(log.topic_id, wanted.partition, wanted.current_leader_epoch)
        end = (await log.offsets()).end
    except KafkaError as error:
        found.error_code = error.code
        return found
    epoch = wanted.leader_epoch
    if epoch == parts.leadership.leader(log.topic_id, wanted.partition).epoch:
        found.leader_epoch, found.end_offset = epoch, end
    elif epoch < NONE:  # older than the first epoch: it ended where the first epoch begins
        found.leader_epoch, found.end_offset = epoch, 0
    return found
