"""TxnOffsetCommit: offsets of a group as a part of a transaction. They count when the transaction
commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.coordination.log import ProducerEpoch
from sharegroup.broker.coordination.offset_coordinator import OffsetTransaction
from sharegroup.broker.handlers.offsets.committed_partitions import commit_or_refuse, sort_out
from sharegroup.broker.handlers.offsets.committed_ranges import commit_ranges_or_refuse, has_ranges
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.offsets import Commit, CommitClient
from sharegroup.groups.range_commits import RangeCommit, RangesCommitted
from sharegroup.model import errors
from sharegroup.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_FROM: Final = 6
"""From this version on the request names topics by their ids."""


async def txn_offset_commit(
    parts: BrokerParts, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    """Each partition has its own result."""
    context.access.require(
        Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    )
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    committer = CommitClient(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=True,
        version=context.version,
    )
    transaction = OffsetTransaction(
        request.transactional_id,
        ProducerEpoch(request.producer_id, request.producer_epoch),
        context.version,
    )
    by_id = context.version >= TOPIC_IDS_FROM
    wanted = sort_out(parts, request.topics, context, by_id=by_id)

    async def commit(commits: Sequence[Commit]) -> None:
        if request.producer_id < 0:  # errors as in Kafka, where no transaction has such a producer
            raise errors.InvalidProducerIdMapping
        if request.producer_epoch < 0:
            partition = parts.offsets.partition_of(request.group_id)
            await parts.offsets.check_transaction(transaction, partition)
            raise errors.InvalidProducerEpoch
        await parts.offsets.commit_in_transaction(committer, transaction, commits)

    if not has_ranges(request.topics):
        return _answer(request, await commit_or_refuse(wanted, commit))

    async def commit_ranges(commits: Sequence[RangeCommit]) -> Sequence[RangesCommitted]:
        await parts.ranges.commit_in_transaction(committer, transaction, commits)
        return [RangesCommitted(one.ranges[-1][1] + 1, None) for one in commits]

    found = await commit_ranges_or_refuse(wanted, request.topics, commit, commit_ranges)
    answer = _answer(request, found.codes)
    for topic, its_stable in zip(answer.topics, found.stable, strict=True):
        for partition, stable in zip(topic.partitions, its_stable, strict=True):
            partition.last_stable_offset = stable
    return answer


def _answer(
    request: TxnOffsetCommitRequest, codes: Sequence[Sequence[int]]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    TxnOffsetCommitResponsePartition(partition.partition_index, code)
                    for partition, code in zip(topic.partitions, its_codes, strict=True)
                ],
            )
            for topic, its_codes in zip(request.topics, codes, strict=True)
        ]
    )
