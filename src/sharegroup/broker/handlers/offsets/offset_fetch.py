"""OffsetFetch: the committed offsets of one group, or from version 8 on of several groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.coordination.offset_coordinator import FetchedOffset
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.offsets import NONE
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.model.limits import FETCHED_OFFSETS_MAX
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sharegroup.wire.messages.ranges import Range

SEVERAL_GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
GROUP_ERROR_FROM: Final = 2
"""From this version on the answer has an error for the whole group; before it, each partition has
the group's error."""


async def offset_fetch(
    parts: BrokerParts, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    """Each group has its own result, and so has each partition."""
    left = FETCHED_OFFSETS_MAX
    answers = []
    for group in _groups(request, context.version):
        answer = await _fetch(
            _Fetch(parts, context, stable=request.require_stable, ranges=request.with_ranges),
            group,
            left,
        )
        left -= sum(len(topic.partitions) for topic in answer.topics)
        answers.append(answer)
        await asyncio.sleep(0)  # other connections have their turn between two groups
    if context.version >= SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(groups=answers)
    return _of_one_group(answers[0], context.version)


def failure(request: OffsetFetchRequest, error: errors.KafkaError) -> OffsetFetchResponse:
    """Every group says ``error``."""
    return OffsetFetchResponse(
        error_code=error.code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(index, NONE, NONE, "", error.code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
        groups=[
            OffsetFetchResponseGroup(group.group_id, error_code=error.code)
            for group in request.groups
        ],
    )


class _Fetch(NamedTuple):
    """The parts of a request that are the same for all its groups."""

    parts: BrokerParts
    context: RequestContext
    stable: bool
    ranges: bool
    """Whether the answer has the ranges committed after the offsets."""

    @property
    def by_id(self) -> bool:
        """Whether topics are named by their ids."""
        return self.context.version >= TOPIC_IDS_FROM

    def may_describe(self, topic: str) -> bool:
        """Whether the client may see offsets in the topic."""
        return self.context.access.allows_topic(Operation.DESCRIBE, topic)


def _groups(request: OffsetFetchRequest, version: int) -> Sequence[OffsetFetchRequestGroup]:
    if version >= SEVERAL_GROUPS_FROM:
        return request.groups
    topics = request.topics
    asked = None
    if topics is not None:
        asked = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ]
    return [OffsetFetchRequestGroup(request.group_id, topics=asked)]


async def _fetch(
    fetch: _Fetch, group: OffsetFetchRequestGroup, offsets_max: int
) -> OffsetFetchResponseGroup:
    try:
        fetch.context.access.require_group(Operation.DESCRIBE, group.group_id)
        if group.topics is None:
            topics = await _all(fetch, group)
        else:
            topics = await _some(fetch, group, group.topics, offsets_max)
        if sum(len(topic.partitions) for topic in topics) > offsets_max:
            raise _too_many()
    except errors.KafkaError as error:
        topics = []
        if group.topics and fetch.context.version < GROUP_ERROR_FROM:
            topics = [
                OffsetFetchResponseTopics(
                    topic.name, partitions=[_no(i, error.code) for i in topic.partition_indexes]
                )
                for topic in group.topics
            ]
        return OffsetFetchResponseGroup(group.group_id, topics, error.code)
    return OffsetFetchResponseGroup(group.group_id, topics)


async def _all(fetch: _Fetch, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    found = await fetch.parts.offsets.fetch_all(
        group.group_id, group.member_id, group.member_epoch, stable=fetch.stable
    )
    topics = []
    for name, partitions in found.items():
        topic_id = fetch.parts.topics.id_of(name) if fetch.by_id else NULL_TOPIC_ID
        if topic_id is not None and fetch.may_describe(name):
            answers = [
                _answer(fetch, index, fetched, topic_id) for index, fetched in partitions.items()
            ]
            topics.append(OffsetFetchResponseTopics(name, topic_id, answers))
    return topics


async def _some(
    fetch: _Fetch,
    group: OffsetFetchRequestGroup,
    asked: Sequence[OffsetFetchRequestTopics],
    offsets_max: int,
) -> list[OffsetFetchResponseTopics]:
    if sum(len(topic.partition_indexes) for topic in asked) > offsets_max:
        raise _too_many()
    names: dict[int, str] = {}
    """Position in ``asked`` → name, for the topics whose offsets may be looked up."""
    codes: dict[int, int] = {}
    for number, topic in enumerate(asked):
        name = fetch.parts.topics.name_of(topic.topic_id) if fetch.by_id else topic.name
        if name is None:
            codes[number] = errors.UnknownTopicId.code
        elif not fetch.context.access.admits_topic(Operation.DESCRIBE, name):
            codes[number] = errors.TopicAuthorizationFailed.code
        else:
            names[number] = name
    wanted = [
        TopicPartition(name, index)
        for number, name in names.items()
        for index in asked[number].partition_indexes
    ]
    found = iter(
        await fetch.parts.offsets.fetch(
            group.group_id, group.member_id, group.member_epoch, wanted, stable=fetch.stable
        )
    )
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [
                _no(index, codes[number])
                if number in codes
                else _answer(fetch, index, next(found), topic.topic_id)
                for index in topic.partition_indexes
            ],
        )
        for number, topic in enumerate(asked)
    ]


def _answer(
    fetch: _Fetch, index: int, fetched: FetchedOffset, topic_id: UUID
) -> OffsetFetchResponsePartitions:
    committed = fetched.committed
    if fetched.unstable:
        return _no(index, errors.UnstableOffsetCommit.code)
    if committed is None or (
        # An offset that was committed for an earlier topic of the same name does not count.
        NULL_TOPIC_ID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id
    ):
        return _no(index, 0)
    ranges = [Range(*each) for each in fetched.ranges] if fetch.ranges else []
    return OffsetFetchResponsePartitions(
        index, committed.offset, committed.leader_epoch, committed.metadata, 0, ranges
    )


def _no(index: int, code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, NONE, NONE, "", code)


def _too_many() -> errors.InvalidRequest:
    return errors.InvalidRequest(f"One request can fetch {FETCHED_OFFSETS_MAX} committed offsets.")


def _of_one_group(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code if version >= GROUP_ERROR_FROM else 0,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
