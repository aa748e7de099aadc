"""ShareAcknowledge: acknowledgements without a fetch; shares the session's sequence of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.decisions_by_hand import DecisionsByHand
from sharegroup.broker.delivery.decisions_by_hand import Outcome as Decided
from sharegroup.broker.delivery.share_acknowledging import AckRound, GoneBack, Outcome
from sharegroup.broker.delivery.share_requests import checked_ids
from sharegroup.broker.handlers.moved_leaders import MovedLeaders
from sharegroup.broker.handlers.share.transactional_acknowledge import acknowledge_in_transaction
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition
from sharegroup.share.session import FINAL_EPOCH
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

NOTHING_DECIDED: Final[Mapping[TopicIdPartition, Decided]] = {}


async def share_acknowledge(
    parts: BrokerParts, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    """Apply, persist, answer. The final epoch also closes the session and releases its records
    (KIP-932). Acknowledgements that an operator makes by hand have neither member nor session."""
    if request.by_hand:
        return await _by_hand(parts, request, context)
    if request.transactional_id:
        held = await acknowledge_in_transaction(parts, request, context)
        return _response(parts, context, held, {})
    group_id, member_id = checked_ids(request.group_id, request.member_id, context.access)
    closes = request.share_session_epoch == FINAL_EPOCH
    if closes:
        session = parts.sessions.close(group_id, member_id)
    else:
        session = parts.sessions.update(group_id, member_id, request.share_session_epoch)
    acks = AckRound(parts, group_id, member_id, context.access, renew_allowed=request.is_renew_ack)
    acks.apply(request.topics)
    if acks.changed:
        await acks.persist()
    if closes:
        await parts.share_partitions.end_session(session)
    response = _response(parts, context, acks.outcome, acks.gone_back)
    response.acquisition_lock_timeout_ms = parts.configs.group(group_id).record_lock_duration_ms
    return response


async def _by_hand(
    parts: BrokerParts, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    """Apply an operator's decisions; each partition has its own result."""
    group_id = request.group_id or ""
    context.access.require_group(Operation.READ, group_id)
    if parts.other_nodes is None:
        parts.views.share_groups.group(group_id)
    outcome: Outcome = {}
    decided: dict[TopicIdPartition, Decided] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            at = TopicIdPartition(topic.topic_id, partition.partition_index)
            key = SharePartitionKey(group_id, *at)
            hand = DecisionsByHand(parts, key, context.access)
            try:
                if parts.other_nodes is not None:
                    await _check_known(parts, key)
                decided[at] = await hand.decide(partition, every_state=request.every_state)
                outcome[at] = None
            except KafkaError as error:
                outcome[at] = error
    return _response(parts, context, outcome, {}, decided)


async def _check_known(parts: BrokerParts, key: SharePartitionKey) -> None:
    """Another node may have the group itself: it exists if it has state of a partition here."""
    parts.leadership.check(key.topic_id, key.partition)
    if not await parts.state.knows(key):
        raise GroupIdNotFound(f"Group {key.group_id} has no state of the partition.")


def _response(
    parts: BrokerParts,
    context: RequestContext,
    outcome: Outcome,
    gone_back: GoneBack,
    decided: Mapping[TopicIdPartition, Decided] = NOTHING_DECIDED,
) -> ShareAcknowledgeResponse:
    moved = MovedLeaders(parts.leadership, context.advertised)
    topics: dict[UUID, list[PartitionData]] = {}
    for key, refused in outcome.items():
        data = _part(moved, key, refused)
        data.gone_back = [Range(*one) for one in gone_back.get(key, ())]
        if key in decided:
            data.decided, data.held = decided[key]
        topics.setdefault(key.topic_id, []).append(data)
    return ShareAcknowledgeResponse(
        responses=[ShareAcknowledgeTopicResponse(*topic) for topic in topics.items()],
        node_endpoints=[NodeEndpoint(*node) for node in moved.nodes()],
    )


def _part(moved: MovedLeaders, key: TopicIdPartition, refused: KafkaError | None) -> PartitionData:
    code = refused.code if refused else 0
    return PartitionData(
        partition_index=key.partition,
        error_code=code,
        error_message=refused.message if refused else None,
        current_leader=LeaderIdAndEpoch(*moved.leader(key, code)),
    )
