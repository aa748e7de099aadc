"""ShareFetch: session, piggybacked acknowledgements and acquisition, with one answer for all.

The acknowledgements are applied first and become durable while the log is read, so their fsync adds
no latency.
"""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID

from sharegroup.broker.delivery.share_acknowledging import AckRound
from sharegroup.broker.delivery.share_fetching import (
    Fetched,
    FetchedAnswer,
    FetchWish,
    ShareFetching,
)
from sharegroup.broker.delivery.share_requests import checked_ids
from sharegroup.broker.handlers.moved_leaders import MovedLeaders
from sharegroup.broker.handlers.passing_errors import as_readers_expect
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition
from sharegroup.share.session import FINAL_EPOCH, INITIAL_EPOCH, BrokerShareSession
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

RECORD_LIMIT = 1


async def share_fetch(
    parts: BrokerParts, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse:
    """See the module (KIP-932)."""
    group_id, member_id = checked_ids(request.group_id, request.member_id, context.access)
    _check_renewal(request)
    acknowledges = any(p.acknowledgement_batches for t in request.topics for p in t.partitions)
    try:
        session = _session(parts, request, context, acknowledges=acknowledges)
    except errors.ShareSessionLimitReached:
        await _idle(parts, context, request.max_wait_ms)
        raise
    acks = AckRound(parts, group_id, member_id, context.access, renew_allowed=request.is_renew_ack)
    if acknowledges:
        acks.apply(request.topics)
    persisting = asyncio.ensure_future(acks.persist()) if acks.changed else None
    closes = request.share_session_epoch == FINAL_EPOCH
    fetched: Fetched = {}
    if not closes and not request.is_renew_ack:
        fetched = await ShareFetching(parts).fetch(_wish(parts, request, session, context))
    if persisting is not None:
        await persisting
    if closes:
        await parts.share_partitions.end_session(session)
    moved = MovedLeaders(parts.leadership, context.advertised)
    responses = _responses(moved, None if closes else session, acks, fetched)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=parts.configs.group(group_id).record_lock_duration_ms,
        responses=responses,
        node_endpoints=[NodeEndpoint(*node) for node in moved.nodes()],
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    """Refuse a request that renews locks and also fetches: the locks could expire before the answer
    (KIP-1222)."""
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(limits):
        raise errors.InvalidRequest(
            "a renewing share fetch must not fetch: its limits must all be 0"
        )


async def _idle(parts: BrokerParts, context: RequestContext, wait_ms: int) -> None:
    """Delay session-limit errors, so that clients do not retry in a loop."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_ms / 1000
    connection, waiters = context.connection, parts.waiters
    with waiters.watch((), connection) as waiter:
        while loop.time() < until and connection in parts.connections and not waiters.closed:
            await waiter.wait(until)


def _session(
    parts: BrokerParts, request: ShareFetchRequest, context: RequestContext, *, acknowledges: bool
) -> BrokerShareSession:
    """Open, continue or close the session."""
    group_id, member_id = request.group_id or "", request.member_id or ""
    named = [
        TopicIdPartition(topic.topic_id, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    if request.share_session_epoch == INITIAL_EPOCH:
        return parts.sessions.open(
            group_id,
            member_id,
            named,
            context.connection,
            has_acknowledgements=acknowledges,
        )
    if request.share_session_epoch == FINAL_EPOCH:
        return parts.sessions.close(group_id, member_id)
    forgotten = [
        TopicIdPartition(topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return parts.sessions.update(
        group_id, member_id, request.share_session_epoch, add=named, forget=forgotten
    )


def _wish(
    parts: BrokerParts,
    request: ShareFetchRequest,
    session: BrokerShareSession,
    context: RequestContext,
) -> FetchWish:
    most = min(parts.configs.broker.integer("fetch.max.bytes"), context.answer_bytes_max())
    bytes_max = min(request.max_bytes, most)
    return FetchWish(
        group_id=session.group_id,
        member_id=session.member_id,
        partitions=session.rotated(),
        bytes_max=bytes_max,
        bytes_min=min(request.min_bytes, bytes_max) if request.min_bytes <= most else 1,
        wait_ms=request.max_wait_ms,
        records_max=request.max_records,
        batch_size=request.batch_size,
        strict=request.share_acquire_mode == RECORD_LIMIT,
        without_records=request.without_records,
        session=session,
        access=context.access,
    )


def _responses(
    moved: MovedLeaders, session: BrokerShareSession | None, acks: AckRound, fetched: Fetched
) -> list[ShareFetchableTopicResponse]:
    """A partition is listed when it has records, an error, an ack result, or is new to the
    session."""
    topics: dict[UUID, list[PartitionData]] = {}
    outcome = acks.outcome
    unlisted = session.unlisted() if session is not None else ()
    for key in dict.fromkeys((*unlisted, *outcome, *fetched)):
        part = fetched.get(key) or FetchedAnswer()
        listed = session is not None and session.must_list(key, has_error=part.error is not None)
        if not (listed or part.acquired or key in outcome):
            continue
        data = _part(moved, key, part, outcome.get(key))
        data.gone_back = [Range(*one) for one in acks.gone_back.get(key, ())]
        topics.setdefault(key.topic_id, []).append(data)
    return [ShareFetchableTopicResponse(*topic) for topic in topics.items()]


def _part(
    moved: MovedLeaders,
    key: TopicIdPartition,
    part: FetchedAnswer,
    refused: errors.KafkaError | None,
) -> PartitionData:
    error = part.error and as_readers_expect(part.error)
    code = error.code if error else 0
    return PartitionData(
        partition_index=key.partition,
        error_code=code,
        error_message=error.message if error else None,
        acknowledge_error_code=refused.code if refused else 0,
        acknowledge_error_message=refused.message if refused else None,
        current_leader=LeaderIdAndEpoch(*moved.leader(key, code)),
        records=cast(bytes, part.records),  # whoever writes the answer takes a range too
        acquired_records=[AcquiredRecords(*acquired) for acquired in part.acquired],
        ordered=part.ordered,
    )
