"""Wrong acknowledgements in a transaction: each gets the protocol's error, nothing is held, and the
member goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.messages.acknowledgement_notes import Reason
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    TIMEOUT_MS,
    Session,
    acquired,
    codes,
    started,
)
from tests.broker.transaction_wire import TransactionalProducer, close_all

Batch = tuple[int, int, int]


def request(
    session: Session, producer: TransactionalProducer, *batches: Batch, **more: Any
) -> ShareAcknowledgeRequest:
    asked = [AcknowledgementBatch(first, last, [kind]) for first, last, kind in batches]
    partition = AcknowledgePartition(0, asked, more.pop("reasons", []))
    fields = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        **more,
    }
    member = fields.pop("member", session.member)
    topics = [AcknowledgeTopic(session.topic_id, [partition])] * fields.pop("times", 1)
    return ShareAcknowledgeRequest(GROUP, member, topics=topics, **fields)


async def code_of(session: Session, asked: ShareAcknowledgeRequest) -> int:
    """The error of the request, or of its partition."""
    answer = await session.connection.send(apis.SHARE_ACKNOWLEDGE, asked, timeout_ms=TIMEOUT_MS)
    return answer.error_code or codes(answer)[0]


def test_each_gets_its_error_and_nothing_is_held(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=3)
        assert acquired(await session.fetch(0)) == {0: [(0, 2, 1)]}
        producer = await TransactionalProducer.start(port)
        good = (0, 2, ACCEPT)
        wrong: list[tuple[type[errors.KafkaError], ShareAcknowledgeRequest]] = [
            (errors.InvalidProducerIdMapping, request(session, producer, good, producer_id=-1)),
            (errors.InvalidProducerIdMapping, request(session, producer, good, producer_id=77)),
            (errors.InvalidProducerEpoch, request(session, producer, good, producer_epoch=-1)),
            (
                errors.InvalidProducerIdMapping,
                request(session, producer, good, transactional_id="x"),
            ),
            (errors.InvalidRequest, request(session, producer, (0, 0, RELEASE))),
            (errors.InvalidRequest, request(session, producer, (0, 0, RENEW))),
            (errors.InvalidRequest, request(session, producer, (0, 0, 0))),
            (errors.InvalidRequest, request(session, producer, (2, 9, ACCEPT))),
            (errors.InvalidRequest, request(session, producer, (1, 0, ACCEPT))),
            (errors.InvalidRequest, request(session, producer, good, times=2)),
            (errors.InvalidRequest, request(session, producer, good, member="")),
            (errors.InvalidRequest, request(session, producer, good, is_renew_ack=True)),
            (errors.InvalidRecordState, request(session, producer, good, member="m-2")),
        ]
        for error, asked in wrong:
            assert await code_of(session, asked) == error.code, asked
        for led in broker.parts.share_partitions.all():
            assert not any(span.lock and span.lock.in_transaction for span in led.core.spans())
        reasons = [Reason(0, 1 << 40, "x" * 10_000), Reason(9, 3, "none")]
        assert (
            await code_of(session, request(session, producer, (1, 1, REJECT), reasons=reasons)) == 0
        )
        assert await code_of(session, request(session, producer, (1, 1, REJECT))) == 0, "a repeat"
        assert await producer.end(commit=True) == 0
        assert codes(await session.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]})) == {0: 0}
        [led] = broker.parts.share_partitions.all()
        assert led.core.start_offset == 3
        await close_all()

    run(tmp_path, scenario)


def test_a_transaction_that_has_ended_holds_nothing_more(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=2)
        assert acquired(await session.fetch(0)) == {0: [(0, 1, 1)]}
        producer = await TransactionalProducer.start(port)
        old = request(session, producer, (1, 1, ACCEPT))
        assert await code_of(session, request(session, producer, (0, 0, ACCEPT))) == 0
        assert await producer.end(commit=True) == 0
        fenced = (errors.ProducerFenced.code, errors.InvalidProducerEpoch.code)
        assert await code_of(session, old) in fenced
        assert await code_of(session, request(session, producer, (0, 0, ACCEPT))) == 0, "finished"
        assert await producer.end(commit=False) == 0
        assert codes(await session.acknowledge({0: [(1, 1, [ACCEPT])]})) == {0: 0}
        await close_all()

    run(tmp_path, scenario)
