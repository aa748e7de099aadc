"""What each request of a share session says, epoch by epoch."""

from __future__ import annotations

from uuid import UUID

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.client.core.share_session import FetchLimits, ShareSession
from sharegroup.model.ids import TopicIdPartition
from sharegroup.wire.messages.share_fetch import ShareFetchRequest

TOPIC = UUID(int=7)
P0, P1, P2 = (TopicIdPartition(TOPIC, index) for index in range(3))
LIMITS = FetchLimits(max_records=10, max_bytes=1000, max_wait_ms=5)
ACCEPTED = [AcknowledgedRange(0, 4, b"\1")]


def told(request: ShareFetchRequest) -> dict[int, int]:
    """Partition → number of acknowledgement batches, as the request lists them."""
    return {
        p.partition_index: len(p.acknowledgement_batches)
        for t in request.topics
        for p in t.partitions
    }


def forgotten(request: ShareFetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def opened() -> ShareSession:
    session = ShareSession("g", "m", OffsetNotes(), OffsetNotes())
    session.fetch_request([P0, P1], {}, LIMITS)
    session.answered()
    return session


def test_it_begins_with_all_partitions_at_epoch_0() -> None:
    session = ShareSession("g", "m", OffsetNotes(), OffsetNotes())
    request = session.fetch_request([P1, P0], {}, LIMITS)
    assert request.share_session_epoch == 0
    assert told(request) == {0: 0, 1: 0}
    assert request.batch_size == request.max_records == 10
    assert not session.open


def test_later_requests_have_only_the_changes() -> None:
    session = opened()
    assert session.open
    request = session.fetch_request([P0, P1], {}, LIMITS)
    assert (request.share_session_epoch, told(request), forgotten(request)) == (1, {}, [])
    session.answered()
    request = session.fetch_request([P1, P2], {P1: ACCEPTED}, LIMITS)
    assert request.share_session_epoch == 2
    assert told(request) == {1: 1, 2: 0}
    assert forgotten(request) == [0]


def test_an_acknowledgement_takes_an_epoch_too() -> None:
    session = opened()
    request = session.acknowledge_request({P0: ACCEPTED})
    assert request.share_session_epoch == 1
    assert not request.is_renew_ack
    session.answered()
    assert session.fetch_request([P0, P1], {}, LIMITS).share_session_epoch == 2


def test_renewals_are_marked() -> None:
    request = opened().acknowledge_request({P0: [AcknowledgedRange(3, 4, b"\4")]})
    assert request.is_renew_ack


def test_the_final_request_has_epoch_minus_1() -> None:
    assert opened().acknowledge_request({}, final=True).share_session_epoch == -1


def test_a_lost_session_starts_again_at_epoch_0() -> None:
    session = opened()
    session.lost()
    assert not session.open
    request = session.fetch_request([P0, P1], {}, LIMITS)
    assert request.share_session_epoch == 0
    assert told(request) == {0: 0, 1: 0}
