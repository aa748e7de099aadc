"""DeleteRecords: move the log start; records in flight below it are gone."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.configs.topic import topic_value
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.config import format_value
from sharegroup.model.errors import InvalidTopic, KafkaError, PolicyViolation
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


async def delete_records(
    parts: BrokerParts, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    """Each partition on its own; offset -1 is the high watermark."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [await _delete(parts, topic.name, part, context) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def failure(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """Every partition says ``error``."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    DeleteRecordsPartitionResult(p.partition_index, -1, error.code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _are_deleted(parts: BrokerParts, name: str) -> bool:
    """Whether the topic's records may be deleted by their age or offset, as its `cleanup.policy`
    says."""
    configs = parts.configs
    policy = topic_value("cleanup.policy", configs.of_topic(name), configs.broker)
    return "delete" in format_value(policy).split(",")


async def _delete(
    parts: BrokerParts, name: str, wanted: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    try:
        context.access.require_topic(Operation.DELETE, name)
        if parts.topics.is_internal(name):
            raise InvalidTopic(f"{name} is internal; its records are the broker's")
        log = parts.topics.log(name, wanted.partition_index)
        if parts.passing is None and not _are_deleted(parts, name):
            raise PolicyViolation(f"{name} is compacted only: it keeps the last record of each key")
        low_watermark = await log.delete_records(wanted.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.code)
    await parts.share_partitions.log_starts_moved([log], "DeleteRecords")
    return DeleteRecordsPartitionResult(wanted.partition_index, low_watermark)
