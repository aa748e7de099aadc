"""ShareFetch: session, piggybacked acknowledgements, acquisition; one answer when all are done.

The acknowledgements are applied first and become durable while the log is read: the fsync costs no
time of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from sharegroup.broker.context import RequestContext
from sharegroup.broker.share_acknowledging import AckRound, Outcome
from sharegroup.broker.share_fetching import FetchedPartition, FetchWish
from sharegroup.model.errors import InvalidRequest
from sharegroup.model.ids import TopicIdPartition
from sharegroup.share.session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from sharegroup.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

RECORD_LIMIT = 1


async def share_fetch(
    broker: Broker, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse:
    """See the module (spec §2.12)."""
    group_id, member_id = _checked_ids(request)
    session, closed = _session(broker, request, context, group_id, member_id)
    acks = AckRound(broker, group_id, member_id, renew_allowed=request.is_renew_ack)
    for topic in request.topics:
        acks.apply(topic.topic_id, topic.partitions)
    persisting = asyncio.ensure_future(acks.persist())
    fetched: dict[TopicIdPartition, FetchedPartition] = {}
    if not closed and not request.is_renew_ack:
        fetched = await broker.share_fetching.fetch(_wish(request, session, group_id, member_id))
    await persisting
    if closed:
        await broker.end_session(session)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=broker.configs.group(group_id).record_lock_duration_ms,
        responses=_responses(broker, session, acks.outcome, fetched),
    )


def _checked_ids(request: ShareFetchRequest) -> tuple[str, str]:
    if not request.group_id or not request.member_id:
        raise InvalidRequest("a share fetch needs a group id and a member id")
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(limits):
        raise InvalidRequest("a renewing share fetch must not fetch: its limits must all be 0")
    return request.group_id, request.member_id


def _session(
    broker: Broker,
    request: ShareFetchRequest,
    context: RequestContext,
    group_id: str,
    member_id: str,
) -> tuple[ShareSession, bool]:
    """Open, continue or close the session; it, and whether it is closed."""
    named = [
        TopicIdPartition(topic.topic_id, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    acknowledges = any(p.acknowledgement_batches for t in request.topics for p in t.partitions)
    if request.share_session_epoch == INITIAL_EPOCH:
        session = broker.sessions.open(
            group_id,
            member_id,
            named,
            context.connection,
            has_acknowledgements=acknowledges,
        )
        return session, False
    if request.share_session_epoch == FINAL_EPOCH:
        session = broker.sessions.close(
            group_id, member_id, fetches=bool(named), has_acknowledgements=acknowledges
        )
        return session, True
    forgotten = [
        TopicIdPartition(topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session = broker.sessions.update(
        group_id, member_id, request.share_session_epoch, add=named, forget=forgotten
    )
    return session, False


def _wish(
    request: ShareFetchRequest, session: ShareSession, group_id: str, member_id: str
) -> FetchWish:
    return FetchWish(
        group_id=group_id,
        member_id=member_id,
        partitions=session.rotated(),
        bytes_max=request.max_bytes,
        bytes_min=request.min_bytes,
        wait_ms=request.max_wait_ms,
        records_max=request.max_records,
        batch_size=request.batch_size,
        strict=request.share_acquire_mode == RECORD_LIMIT,
        without_records=request.without_records,
        session=session,
    )


def _responses(
    broker: Broker,
    session: ShareSession,
    outcome: Outcome,
    fetched: dict[TopicIdPartition, FetchedPartition],
) -> list[ShareFetchableTopicResponse]:
    """A partition is listed when it has records, an error, an ack result, or is new to the
    session."""
    topics: dict[UUID, list[PartitionData]] = {}
    for key in _candidates(session, outcome, fetched):
        part = fetched.get(key) or FetchedPartition()
        listed = session.must_list(key, has_error=part.error is not None)
        if not (listed or part.acquired or key in outcome):
            continue
        refused = outcome.get(key)
        topics.setdefault(key.topic_id, []).append(
            PartitionData(
                partition_index=key.partition,
                error_code=part.error.code if part.error else 0,
                acknowledge_error_code=refused.code if refused else 0,
                current_leader=LeaderIdAndEpoch(broker.node_id, 0),
                records=part.records,
                acquired_records=[AcquiredRecords(*acquired) for acquired in part.acquired],
            )
        )
    return [ShareFetchableTopicResponse(topic_id, parts) for topic_id, parts in topics.items()]


def _candidates(
    session: ShareSession, outcome: Outcome, fetched: dict[TopicIdPartition, FetchedPartition]
) -> Iterable[TopicIdPartition]:
    return dict.fromkeys((*session.partitions, *outcome, *fetched))
