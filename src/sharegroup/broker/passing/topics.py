"""Requests about topics, their replicas and their settings: the cluster has the topics. Settings
that only this broker knows are kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.hidden import hide_configs
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.configs.topic import DEAD_LETTERS_ENABLE
from sharegroup.broker.passing.passing import Asked, Created, Passing
from sharegroup.broker.passing.rights import require_delete
from sharegroup.model.errors import (
    InvalidRequest,
    KafkaError,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
)
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from sharegroup.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharegroup.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

OWN: Final = frozenset({DEAD_LETTERS_ENABLE})
"""Settings of topics that this broker keeps."""
TOPIC: Final = 2
GROUP: Final = 32
CONSUMER: Final = "consumer."
"""How settings of groups begin that have no effect here."""


async def create(
    passing: Passing, api: Api, request: CreateTopicsRequest, asked: Asked
) -> CreateTopicsResponse:
    """Make topics in the cluster."""
    without = [
        replace(one, configs=[each for each in one.configs if each.name not in OWN])
        for one in request.topics
    ]
    topics = passing.cluster.metadata.topics
    counts = {
        one.name: max(1, one.num_partitions, len(one.assignments))
        for one in without
        if one.name not in topics
    }
    throttled = _charge(counts, asked)
    without = [one for one in without if one.name not in throttled]
    answer = CreateTopicsResponse()
    if without:
        answer = await passing.to_controller(api, replace(request, topics=without), asked)
    for one in answer.topics:
        if not asked.access.allows_topic(Operation.DESCRIBE_CONFIGS, one.name):
            hide_configs(one)
    refused = [
        CreatableTopicResult(name, error_code=e.code, error_message=e.message, configs=None)
        for name, e in throttled.items()
    ]
    answer.topics = [*refused, *answer.topics]
    made = {one.name for one in answer.topics if not one.error_code}
    if not request.validate_only:
        await passing.seen(
            [
                Created(one.name, {c.name: c.value or "" for c in one.configs if c.name in OWN})
                for one in request.topics
                if one.name in made
            ]
        )
    return answer


async def delete(
    passing: Passing, api: Api, request: DeleteTopicsRequest, asked: Asked
) -> DeleteTopicsResponse:
    """Delete topics, each of which the client may delete or not. A topic may be named by its id."""
    names = {one.topic_id: name for name, one in passing.cluster.metadata.topics.items()}
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    refused = [
        DeletableTopicResult(one.name, one.topic_id, error.code, error.message)
        for one in wanted
        if (error := _refused(one, names.get(one.topic_id), asked.access)) is not None
    ]
    refused += _throttled(passing, wanted, refused, asked)
    known = {(one.name, one.topic_id) for one in refused}
    topics = [one for one in request.topics if (one.name, one.topic_id) not in known]
    without = [name for name in request.topic_names if (name, NULL_TOPIC_ID) not in known]
    answer = DeleteTopicsResponse()
    if topics or without:
        allowed = replace(request, topics=topics, topic_names=without)
        answer = await passing.to_controller(api, allowed, asked)
        await passing.seen([])
    return replace(answer, responses=[*refused, *answer.responses])


def _refused(one: DeleteTopicState, name: str | None, access: Access) -> KafkaError | None:
    """Why the client may not delete a topic; None: it may. ``name``: of the topic with that id."""
    if one.name is None and name is None:
        return UnknownTopicId()
    try:
        require_delete(access, one.name or name or "")
    except KafkaError as error:
        return error
    return None


def _charge(counts: Mapping[str, int], asked: Asked) -> dict[str, ThrottlingQuotaExceeded]:
    """Charge the client for partitions that it makes or deletes. Returns the topics for which it
    has to wait."""
    throttled: dict[str, ThrottlingQuotaExceeded] = {}
    charges = asked.mutations
    if charges is None:
        return throttled
    for name, count in counts.items():
        try:
            charges.charge(count)
        except ThrottlingQuotaExceeded as error:
            throttled[name] = error
    return throttled


def _throttled(
    passing: Passing,
    wanted: Sequence[DeleteTopicState],
    refused: Sequence[DeletableTopicResult],
    asked: Asked,
) -> list[DeletableTopicResult]:
    """The topics that a client has to wait for before it may delete them."""
    metadata = passing.cluster.metadata
    known = {(one.name, one.topic_id) for one in refused}
    found = []
    for one in wanted:
        name = one.name or metadata.name_of(one.topic_id) or ""
        topic = metadata.topics.get(name)
        if topic is not None and (one.name, one.topic_id) not in known:
            found += [
                DeletableTopicResult(one.name, one.topic_id, error.code, error.message)
                for error in _charge({name: len(topic.partitions)}, asked).values()
            ]
    return found


async def change(
    passing: Passing, api: Api, request: CreatePartitionsRequest, asked: Asked
) -> CreatePartitionsResponse:
    """Let topics grow."""
    known = passing.cluster.metadata.topics
    counts = {
        one.name: max(0, one.count - len(known[one.name].partitions))
        for one in request.topics
        if one.name in known
    }
    throttled = _charge(counts, asked)
    topics = [one for one in request.topics if one.name not in throttled]
    answer = CreatePartitionsResponse()
    if topics:
        answer = await passing.to_controller(api, replace(request, topics=topics), asked)
        await passing.seen([])
    refused = [
        CreatePartitionsTopicResult(name, e.code, e.message) for name, e in throttled.items()
    ]
    return replace(answer, results=[*refused, *answer.results])


async def by_controller(passing: Passing, api: Api, request: Any, asked: Asked) -> Any:
    """To the broker that decides about replicas and leaders. Ids of brokers in request and answer
    are the cluster's: clients know our nodes only."""
    return await passing.to_controller(api, request, asked)


async def describe_configs(
    passing: Passing, api: Api, request: DescribeConfigsRequest, asked: Asked
) -> DescribeConfigsResponse:
    """Settings of topics from the cluster, with those that are kept here; all others from here."""

    async def describe(one: DescribeConfigsResource) -> DescribeConfigsResult:
        wanted = replace(request, resources=[one])
        mine: DescribeConfigsResult = _only((await asked.here(wanted)).results)
        if one.resource_type != TOPIC or mine.error_code:
            return mine
        theirs: DescribeConfigsResult = _only(
            (await passing.cluster.send_to_any(api, wanted)).results
        )
        own = [each for each in mine.configs if each.name in OWN]
        others = [each for each in theirs.configs if each.name not in OWN]
        return replace(theirs, configs=others if theirs.error_code else [*others, *own])

    results = await asyncio.gather(*map(describe, request.resources))
    return DescribeConfigsResponse(results=results)


async def change_configs(
    passing: Passing, api: Api, request: IncrementalAlterConfigsRequest, asked: Asked
) -> IncrementalAlterConfigsResponse:
    """Settings of topics at the cluster, but those that are kept here; all others here. Settings
    for consumer groups are refused: the cluster has these groups."""
    answers = await _alter_each(passing, api, request, asked, replaces=False)
    return IncrementalAlterConfigsResponse(responses=answers)


async def replace_configs(
    passing: Passing, api: Api, request: AlterConfigsRequest, asked: Asked
) -> AlterConfigsResponse:
    """As :func:`change_configs`; settings that are not named go back to their defaults."""
    answers = await _alter_each(passing, api, request, asked, replaces=True)
    return AlterConfigsResponse(responses=answers)


async def _alter_each(
    passing: Passing, api: Api, request: Any, asked: Asked, *, replaces: bool
) -> Sequence[Any]:
    async def here(one: Any, *, validate_only: bool = request.validate_only) -> Any:
        wanted = replace(request, resources=[one], validate_only=validate_only)
        return _only((await asked.here(wanted)).responses)

    async def alter(one: Any) -> Any:
        if one.resource_type == GROUP and (setting := _of_consumer_group(one)):
            checked = await here(one, validate_only=True)
            told = _not_here(setting, passing)
            return checked if checked.error_code else replace(checked, **told)
        if one.resource_type != TOPIC:
            return await here(one)
        mine = replace(one, configs=[each for each in one.configs if each.name in OWN])
        theirs = replace(one, configs=[each for each in one.configs if each.name not in OWN])
        is_mine, is_theirs = replaces or bool(mine.configs), replaces or bool(theirs.configs)
        result: Any = None
        if is_mine or not is_theirs:
            result = await here(mine, validate_only=is_theirs or request.validate_only)
        if is_theirs and not (result and result.error_code):
            wanted = replace(request, resources=[theirs])
            result = _only((await passing.to_controller(api, wanted, asked)).responses)
            if is_mine and not result.error_code:
                result = await here(mine)
        return result

    named = [(one.resource_type, one.resource_name) for one in request.resources]
    if len({*named}) < len(named):  # which is refused
        refused: Sequence[Any] = (await asked.here(request)).responses
        return refused
    return await asyncio.gather(*map(alter, request.resources))


def _of_consumer_group(resource: Any) -> str:
    """The first setting for consumer groups; empty if there is none."""
    return next((one.name for one in resource.configs if one.name.startswith(CONSUMER)), "")


def _not_here(setting: str, passing: Passing) -> dict[str, Any]:
    servers = ", ".join(map(str, passing.cluster.bootstrap))
    said = f"{setting} is for consumer groups, which the cluster has: set it there, at {servers}"
    return {"error_code": InvalidRequest.code, "error_message": said}


def _only(results: Sequence[Any]) -> Any:
    [result] = results
    return result
