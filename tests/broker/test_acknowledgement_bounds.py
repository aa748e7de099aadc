"""What a request may say of records is bounded by the records that there are, before it is read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.network import dispatch
from sharegroup.broker.server import Broker
from sharegroup.model.errors import GroupAuthorizationFailed, InvalidRequest
from sharegroup.model.limits import ACKNOWLEDGING_BYTES_FREE
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import response_body
from sharegroup.wire.messages import share_acknowledge as ack_messages
from sharegroup.wire.messages import share_fetch as fetch_messages
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run
from tests.broker.share_wire import ACCEPT, GROUP, RELEASE, acquired, codes, parts, started

WIDEST = 10_000
"""Records in flight at most in a group as Kafka has them."""


def ranges(kind: type[Any], first: int, count: int) -> list[Any]:
    return [kind(first + number, first + number, [ACCEPT]) for number in range(count)]


def acknowledgement(topic_id: Any, count: int) -> bytes:
    batches = ranges(ack_messages.AcknowledgementBatch, 10**9, count)
    topic = ack_messages.AcknowledgeTopic(topic_id, [ack_messages.AcknowledgePartition(0, batches)])
    request = ack_messages.ShareAcknowledgeRequest(GROUP, "m-1", 1, topics=[topic])
    return frame(apis.SHARE_ACKNOWLEDGE, 1, request)


def fetch(topic_id: Any, count: int) -> bytes:
    batches = ranges(ack_messages.AcknowledgementBatch, 10**9, count)
    topic = fetch_messages.FetchTopic(topic_id, [fetch_messages.FetchPartition(0, batches)])
    request = fetch_messages.ShareFetchRequest(GROUP, "m-1", 1, topics=[topic])
    return frame(apis.SHARE_FETCH, 1, request)


@pytest.mark.parametrize(
    ("api", "sent"), [(apis.SHARE_ACKNOWLEDGE, acknowledgement), (apis.SHARE_FETCH, fetch)]
)
def test_hundreds_of_thousands_of_ranges_are_refused_undecoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: apis.Api, sent: Any
) -> None:
    read: list[str] = []

    def noted(kind: type[Any], *arguments: Any) -> Any:
        read.append(kind.__name__)
        return decode(kind, *arguments)

    monkeypatch.setattr(dispatch, "decode", noted)

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        read.clear()
        peer = await Greedy.connect(port, begun=True)
        request = sent(session.topic_id, 200_000)
        for _ in range(3):
            peer.send(request)
            answer = await peer.answer()
            correlation_id, at = response_body(api, 1, answer)
            response: Any = decode(api.response, 1, answer, at)
            assert (correlation_id, response.error_code) == (1, InvalidRequest.code)
        assert read == ["ApiVersionsRequest"]
        # The member's own session has not noticed.
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}
        peer.close()
        session.connection.close()

    run(tmp_path, scenario)


@pytest.mark.parametrize("way", ["a range for each record", "a type for each record"])
def test_a_full_window_may_be_acknowledged_record_by_record(tmp_path: Path, way: str) -> None:
    options = (f"group.share.max.partition.max.record.locks={WIDEST}",)

    async def scenario(broker: Broker, port: int) -> None:
        locks = str(WIDEST)
        session = await started(
            broker, port, records=WIDEST, share_partition_max_record_locks=locks
        )
        got = acquired(await session.fetch(0, max_records=WIDEST, batch_size=WIDEST))
        assert got == {0: [(0, WIDEST - 1, 1)]}
        kinds = [ACCEPT if number % 2 else RELEASE for number in range(WIDEST)]
        each = [(number, number, [kind]) for number, kind in enumerate(kinds)]
        acks = each if way == "a range for each record" else [(0, WIDEST - 1, kinds)]
        assert codes(await session.acknowledge({0: acks})) == {0: 0}
        again = await session.fetch(max_records=WIDEST, batch_size=1)
        assert len(parts(again)[0].acquired_records) == WIDEST // 2
        session.connection.close()

    run(tmp_path, scenario, *options)


def test_a_session_of_many_partitions_may_be_opened(tmp_path: Path) -> None:
    """Without any record in flight: what adds partitions is no acknowledgement."""
    partitions = 1_000

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=partitions)
        one = [
            fetch_messages.FetchTopic(session.topic_id, [fetch_messages.FetchPartition(number)])
            for number in range(partitions)
        ]
        request = fetch_messages.ShareFetchRequest(GROUP, "m-1", 0, topics=one)
        sent = frame(apis.SHARE_FETCH, 1, request)
        assert len(sent) > ACKNOWLEDGING_BYTES_FREE
        peer = await Greedy.connect(port)
        peer.send(sent)
        answer = await asyncio.wait_for(peer.answer(), 120)
        _, at = response_body(apis.SHARE_FETCH, 1, answer)
        assert decode(fetch_messages.ShareFetchResponse, 1, answer, at).error_code == 0
        peer.close()
        session.connection.close()

    run(tmp_path, scenario)


def test_who_may_not_read_a_group_does_not_learn_what_is_in_flight(tmp_path: Path) -> None:
    async def scenario(_broker: Broker, port: int) -> None:
        for api, sent in ((apis.SHARE_ACKNOWLEDGE, acknowledgement), (apis.SHARE_FETCH, fetch)):
            peer = await Greedy.connect(port, begun=True)
            peer.send(sent(UUID(int=1), WIDEST))
            answer = await peer.answer()
            _, at = response_body(api, 1, answer)
            response: Any = decode(api.response, 1, answer, at)
            assert response.error_code == GroupAuthorizationFailed.code
            assert "in flight" not in (response.error_message or "")
            peer.close()

    run(tmp_path, scenario, "authorizer.class.name=StandardAuthorizer")
