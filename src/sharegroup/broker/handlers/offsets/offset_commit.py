"""OffsetCommit: commit the offsets at which a group goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.handlers.offsets.committed_partitions import commit_or_refuse, sort_out
from sharegroup.broker.handlers.offsets.committed_ranges import commit_ranges_or_refuse, has_ranges
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.offsets import Commit, CommitClient
from sharegroup.groups.range_commits import RangeCommit, RangesCommitted
from sharegroup.model.ids import TopicIdPartition
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM: Final = 10
"""From this version on the request names topics by their ids."""


async def offset_commit(
    parts: BrokerParts, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse:
    """Each partition has its own result."""
    context.access.require_group(Operation.READ, request.group_id)
    committer = CommitClient(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=False,
        version=context.version,
    )
    wanted = sort_out(
        parts,
        request.topics,
        context,
        by_id=context.version >= TOPIC_IDS_FROM,
        retention_ms=request.retention_time_ms,
    )

    async def commit(commits: Sequence[Commit]) -> None:
        await parts.offsets.commit(committer, commits)

    if not has_ranges(request.topics):
        return _answer(request, await commit_or_refuse(wanted, commit))

    async def commit_ranges(commits: Sequence[RangeCommit]) -> Sequence[RangesCommitted]:
        answers = await parts.ranges.commit(committer, commits)
        for one, answer in zip(commits, answers, strict=True):
            topic = parts.topics.find(one.commit.topic)
            if answer.error is None and topic is not None:
                where = TopicIdPartition(topic.topic_id, one.commit.partition)
                parts.cooperative_reading.committed(
                    committer.group_id, committer.member_id, where, one.ranges
                )
        return answers

    found = await commit_ranges_or_refuse(wanted, request.topics, commit, commit_ranges)
    answer = _answer(request, found.codes)
    for topic, its_stable in zip(answer.topics, found.stable, strict=True):
        for partition, stable in zip(topic.partitions, its_stable, strict=True):
            partition.last_stable_offset = stable
    return answer


def _answer(request: OffsetCommitRequest, codes: Sequence[Sequence[int]]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(partition.partition_index, code)
                    for partition, code in zip(topic.partitions, its_codes, strict=True)
                ],
            )
            for topic, its_codes in zip(request.topics, codes, strict=True)
        ]
    )
