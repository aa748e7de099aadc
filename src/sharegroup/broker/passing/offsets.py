"""Requests for committed offsets: to the groups' coordinators in the cluster, which would tell this
broker's own user all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.passing.passing import Asked, Passing
from sharegroup.client.network.cluster import GROUP
from sharegroup.groups.offsets import NONE
from sharegroup.model import errors
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_FROM: Final = 8
"""OffsetFetch has several groups from this version on."""


class NamedTopic(Protocol):
    """A topic in a request."""

    name: str


T = TypeVar("T", bound=NamedTopic)
M = TypeVar("M", OffsetFetchRequest, OffsetFetchRequestGroup)


async def offset_fetch(
    passing: Passing, api: Api, request: OffsetFetchRequest, asked: Asked
) -> Any:
    """To the coordinator of each group, without the topics that the client may not see."""
    if asked.version < GROUPS_FROM:
        hidden = _hidden_topics(request.topics, asked.access)
        wanted = _without(request, hidden)
        answer = await passing.to_coordinator(GROUP, request.group_id, api, wanted, asked)
        _show(answer, [_refused_before(one) for one in hidden], asked.access)
        return answer

    async def fetch(group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseGroup]:
        hidden = _hidden_topics(group.topics, asked.access)
        wanted = OffsetFetchRequest(
            groups=[_without(group, hidden)], require_stable=request.require_stable
        )
        answer = await passing.to_coordinator(GROUP, group.group_id, api, wanted, asked)
        for one in answer.groups:
            _show(one, [_refused(topic) for topic in hidden], asked.access)
        return list(answer.groups)

    answers = await asyncio.gather(*map(fetch, request.groups))
    return OffsetFetchResponse(groups=[each for answer in answers for each in answer])


def _hidden_topics(topics: Sequence[T] | None, access: Access) -> list[T]:
    """The topics of a request that the client may not see."""
    if not access.restricted:
        return []
    return [one for one in topics or () if not access.admits_topic(Operation.DESCRIBE, one.name)]


def _without(asked: M, hidden: Sequence[NamedTopic]) -> M:
    """A request, or its part about a group, without these topics."""
    if not hidden:
        return asked
    return replace(asked, topics=[one for one in asked.topics or () if one not in hidden])


def _show(answer: Any, refused: Sequence[Any], access: Access) -> None:
    """Leave what the client may see: if the request named no topics, the answer has all."""
    if access.restricted and not answer.error_code:
        seen = [one for one in answer.topics if access.allows_topic(Operation.DESCRIBE, one.name)]
        answer.topics = [*seen, *refused]


def _refused(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    code = errors.TopicAuthorizationFailed.code
    return OffsetFetchResponseTopics(
        topic.name,
        partitions=[
            OffsetFetchResponsePartitions(index, NONE, NONE, "", code)
            for index in topic.partition_indexes
        ],
    )


def _refused_before(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    """As :func:`_refused`, for the versions before ``GROUPS_FROM``."""
    code = errors.TopicAuthorizationFailed.code
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(index, NONE, NONE, "", code)
            for index in topic.partition_indexes
        ],
    )
