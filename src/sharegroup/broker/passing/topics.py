"""Requests about topics and their settings: the cluster has the topics. Settings that only this
broker knows are kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sharegroup.broker.configs.topic import DEAD_LETTERS_ENABLE
from sharegroup.broker.passing.passing import Asked, Created, Passing
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

OWN: Final = frozenset({DEAD_LETTERS_ENABLE})
"""Settings of topics that this broker keeps."""
TOPIC: Final = 2


async def create(
    passing: Passing, api: Api, request: CreateTopicsRequest, asked: Asked
) -> CreateTopicsResponse:
    """Make topics in the cluster."""
    without = [
        replace(one, configs=[each for each in one.configs if each.name not in OWN])
        for one in request.topics
    ]
    answer: CreateTopicsResponse = await passing.to_controller(
        api, replace(request, topics=without), asked
    )
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


async def change(passing: Passing, api: Api, request: Any, asked: Asked) -> Any:
    """Delete topics, or let them grow."""
    answer = await passing.to_controller(api, request, asked)
    await passing.seen([])
    return answer


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


async def alter_configs(
    passing: Passing, api: Api, request: IncrementalAlterConfigsRequest, asked: Asked
) -> IncrementalAlterConfigsResponse:
    """Settings of topics at the cluster, but those that are kept here; all others here."""

    async def alter(one: AlterConfigsResource) -> AlterConfigsResourceResponse:
        mine, theirs = one, None
        if one.resource_type == TOPIC:
            mine = replace(one, configs=[each for each in one.configs if each.name in OWN])
            theirs = replace(one, configs=[each for each in one.configs if each.name not in OWN])
        result = AlterConfigsResourceResponse(
            error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
        )
        if theirs is not None and theirs.configs:
            answer = await passing.to_controller(api, replace(request, resources=[theirs]), asked)
            result = _only(answer.responses)
        if not result.error_code and (theirs is None or mine.configs):
            answer = await asked.here(replace(request, resources=[mine]))
            result = _only(answer.responses)
        return result

    named = [(one.resource_type, one.resource_name) for one in request.resources]
    if len({*named}) < len(named):  # which is refused
        refused: IncrementalAlterConfigsResponse = await asked.here(request)
        return refused
    results = await asyncio.gather(*map(alter, request.resources))
    return IncrementalAlterConfigsResponse(responses=results)


def _only(results: Sequence[Any]) -> Any:
    [result] = results
    return result
