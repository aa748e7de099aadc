"""Requests about consumer groups and transactions: to their coordinators in the cluster. Share
groups are this broker's own; a list of groups has both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group,
)
from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX
from sharegroup.broker.passing.passing import Asked, Passing
from sharegroup.client.network.cluster import GROUP, TRANSACTION
from sharegroup.model import errors
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sharegroup.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from sharegroup.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from sharegroup.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from sharegroup.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

TRANSACTIONS: Final = ResourceType.TRANSACTIONAL_ID
SHARE: Final = "share"
CLASSIC: Final = "classic"
GROUPS_FROM: Final = 8
"""OffsetFetch has several groups from this version on."""


async def by_group(passing: Passing, api: Api, request: Any, asked: Asked) -> Any:
    """To the group's coordinator."""
    return await passing.to_coordinator(GROUP, request.group_id, api, request, asked)


async def by_transaction(passing: Passing, api: Api, request: Any, asked: Asked) -> Any:
    """To the coordinator of the transactional id; an idempotent producer, which has none, gets its
    producer id from any broker."""
    name = getattr(request, "v3_and_below_transactional_id", "") or getattr(
        request, "transactional_id", ""
    )
    if not name:
        return await passing.cluster.send_to_any(api, request)
    return await passing.to_coordinator(TRANSACTION, name, api, request, asked)


async def offset_fetch(
    passing: Passing, api: Api, request: OffsetFetchRequest, asked: Asked
) -> Any:
    """To the coordinator of each group."""
    if asked.version < GROUPS_FROM:
        return await by_group(passing, api, request, asked)
    answers = await asyncio.gather(
        *(
            passing.to_coordinator(
                GROUP,
                one.group_id,
                api,
                OffsetFetchRequest(groups=[one], require_stable=request.require_stable),
                asked,
            )
            for one in request.groups
        )
    )
    return OffsetFetchResponse(groups=[each for answer in answers for each in answer.groups])


async def list_groups(
    passing: Passing, api: Api, request: ListGroupsRequest, asked: Asked
) -> ListGroupsResponse:
    """This broker's share groups, and, by one broker, the cluster's groups of other types."""
    mine: ListGroupsResponse = await asked.here(request)
    kinds = {kind.lower() for kind in request.types_filter}
    found = {one.group_id: one for one in mine.groups if one.group_type in ("", SHARE)}
    if passing.lists_all() and (not kinds or kinds - {SHARE}):
        wanted = ListGroupsRequest(states_filter=request.states_filter)
        answers = await passing.to_all(api, wanted, asked)
        found |= _of_cluster(answers, kinds, asked)
    return ListGroupsResponse(groups=[found[name] for name in sorted(found)])


def _of_cluster(
    answers: Sequence[ListGroupsResponse], kinds: set[str], asked: Asked
) -> dict[str, ListedGroup]:
    for answer in answers:
        if answer.error_code:
            raise errors.error_from_code(answer.error_code)
    sees_all = asked.access.allows(Operation.DESCRIBE, CLUSTER)
    return {
        one.group_id: replace(one, group_type=one.group_type or CLASSIC)  # before Kafka 3.8: none
        for answer in answers
        for one in answer.groups
        if (kind := one.group_type.lower() or CLASSIC) != SHARE
        and (not kinds or kind in kinds)
        and not one.group_id.startswith(IN_CLUSTER_PREFIX)
        and (sees_all or asked.access.allows(Operation.DESCRIBE, group(one.group_id)))
    }


async def describe_groups(
    passing: Passing, api: Api, request: DescribeGroupsRequest, asked: Asked
) -> DescribeGroupsResponse:
    """To the coordinator of each group."""
    answers = await _each_group(
        passing, api, request.groups, lambda name: DescribeGroupsRequest(groups=[name]), asked
    )
    return DescribeGroupsResponse(groups=[one for answer in answers for one in answer.groups])


async def describe_consumer_groups(
    passing: Passing, api: Api, request: ConsumerGroupDescribeRequest, asked: Asked
) -> ConsumerGroupDescribeResponse:
    """To the coordinator of each group."""
    answers = await _each_group(
        passing,
        api,
        request.group_ids,
        lambda name: ConsumerGroupDescribeRequest(group_ids=[name]),
        asked,
    )
    return ConsumerGroupDescribeResponse(
        groups=[one for answer in answers for one in answer.groups]
    )


async def delete_groups(
    passing: Passing, api: Api, request: DeleteGroupsRequest, asked: Asked
) -> DeleteGroupsResponse:
    """Share groups here; those that are none, at their coordinators in the cluster."""
    mine: DeleteGroupsResponse = await asked.here(request)
    results = {one.group_id: one for one in mine.results}
    others = [
        name for name, one in results.items() if one.error_code == errors.GroupIdNotFound.code
    ]
    answers = await _each_group(
        passing, api, others, lambda name: DeleteGroupsRequest(groups_names=[name]), asked
    )
    results |= {one.group_id: one for answer in answers for one in answer.results}
    return DeleteGroupsResponse(results=[*results.values()])


async def _each_group(
    passing: Passing, api: Api, names: Sequence[str], request: Any, asked: Asked
) -> list[Any]:
    return await asyncio.gather(
        *(passing.to_coordinator(GROUP, name, api, request(name), asked) for name in names)
    )


async def list_transactions(
    passing: Passing, api: Api, request: ListTransactionsRequest, asked: Asked
) -> ListTransactionsResponse:
    """By one broker, those of all coordinators, as far as the client may see them."""
    answers = await passing.to_all(api, request, asked) if passing.lists_all() else []
    may = asked.access
    return ListTransactionsResponse(
        error_code=next((one.error_code for one in answers if one.error_code), 0),
        unknown_state_filters=[*answers[0].unknown_state_filters] if answers else [],
        transaction_states=[
            one
            for answer in answers
            for one in answer.transaction_states
            if not one.transactional_id.startswith(IN_CLUSTER_PREFIX)
            and may.allows(Operation.DESCRIBE, Resource(TRANSACTIONS, one.transactional_id))
        ],
    )


async def describe_transactions(
    passing: Passing, api: Api, request: DescribeTransactionsRequest, asked: Asked
) -> DescribeTransactionsResponse:
    """To the coordinator of each transactional id."""
    answers = await asyncio.gather(
        *(
            passing.to_coordinator(
                TRANSACTION, name, api, DescribeTransactionsRequest(transactional_ids=[name]), asked
            )
            for name in request.transactional_ids
        )
    )
    return DescribeTransactionsResponse(
        transaction_states=[one for answer in answers for one in answer.transaction_states]
    )
