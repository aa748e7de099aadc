"""Requests about consumer groups and transactions: to their coordinators in the cluster. Share
groups are this broker's own; a list of groups has both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.hidden import HIDDEN_TOPIC
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
from sharegroup.model.regex import compile_regex
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
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

TRANSACTIONS: Final = ResourceType.TRANSACTIONAL_ID
SHARE: Final = "share"
CLASSIC: Final = "classic"


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


async def consumer_heartbeat(
    passing: Passing, api: Api, request: ConsumerGroupHeartbeatRequest, asked: Asked
) -> Any:
    """To the group's coordinator. The cluster finds the topics of a regular expression by the
    broker's rights, so the client must be allowed to see all that match it.

    Raises:
        InvalidRegularExpression: the cluster would refuse it, too.
        TopicAuthorizationFailed: a topic matches that the client may not see.
    """
    if request.subscribed_topic_regex and asked.access.restricted:
        matches = compile_regex(request.subscribed_topic_regex, "SubscribedTopicRegex")
        for name in passing.cluster.metadata.topics:
            if matches(name) and not asked.access.allows_topic(Operation.DESCRIBE, name):
                raise errors.TopicAuthorizationFailed(
                    "The regular expression matches a topic that the client is not authorized to "
                    "describe: use one that does not, or name the topics."
                )
    return await by_group(passing, api, request, asked)


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
    groups = [one for answer in answers for one in answer.groups]
    if request.include_authorized_operations:
        _tell_operations(groups, asked.access)
    return DescribeGroupsResponse(groups=groups)


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
    groups = [_as_seen(one, asked.access) for answer in answers for one in answer.groups]
    if request.include_authorized_operations:
        _tell_operations(groups, asked.access)
    return ConsumerGroupDescribeResponse(groups=groups)


def _tell_operations(groups: Sequence[Any], access: Access) -> None:
    """What the client may do with the groups: the cluster would tell what this broker may."""
    for one in groups:
        if not one.error_code:
            one.authorized_operations = access.operations(group(one.group_id))


def _as_seen(group: DescribedGroup, access: Access) -> DescribedGroup:
    """A group as the client may see it: not at all, if a topic of it is hidden from the client."""
    assigned = (
        topic.topic_name
        for member in group.members
        for each in (member.assignment, member.target_assignment)
        for topic in (each.topic_partitions if each is not None else ())
    )
    may = access.allows_topic
    if not access.restricted or all(may(Operation.DESCRIBE, name) for name in assigned):
        return group
    code = errors.TopicAuthorizationFailed.code
    return DescribedGroup(group_id=group.group_id, error_code=code, error_message=HIDDEN_TOPIC)


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
    """To the coordinator of each transactional id. Topics that the client may not see are left
    out."""
    answers = await asyncio.gather(
        *(
            passing.to_coordinator(
                TRANSACTION, name, api, DescribeTransactionsRequest(transactional_ids=[name]), asked
            )
            for name in request.transactional_ids
        )
    )
    found = [one for answer in answers for one in answer.transaction_states]
    for one in found:
        one.topics = [
            each for each in one.topics if asked.access.allows_topic(Operation.DESCRIBE, each.topic)
        ]
    return DescribeTransactionsResponse(transaction_states=found)
