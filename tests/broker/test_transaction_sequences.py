"""Sequences of transactional producers, by wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.coordination.transaction_writes import LOWEST_MAX, LowestSequences, Write
from sharegroup.broker.server import Broker
from sharegroup.model.errors import (
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    TransactionAbortable,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import parse_headers
from tests.broker.test_transactions import OK, run, topic
from tests.broker.transaction_wire import TOPIC, TransactionalProducer


def test_requests_sent_at_once_stay_in_order(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        log = broker.parts.topics.log(TOPIC, 0)
        # The first one waits until its partition is added; the others must not overtake it.
        for number in range(20):
            producer._sequences[0] = number
            request = producer.request((0, producer.batch(0, b"%d" % number)))
            producer.post(apis.PRODUCE, 12, request)
        for number in range(20):
            answer = await producer.answer(apis.PRODUCE, 12)
            part = answer.responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (OK, number)
        assert log.high_watermark == 20
        assert await producer.end(commit=True) == OK

    run(tmp_path, scenario)


def test_a_transaction_of_version_2_begins_at_sequence_0(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        producer._sequences[0] = 3
        assert await producer.write({0: b"x"}) == [OutOfOrderSequenceNumber.code]
        producer._sequences[0] = 0
        assert await producer.write({0: b"x"}) == [OK]

    run(tmp_path, scenario)


def test_a_transaction_goes_on_behind_an_idempotent_batch(tmp_path: Path) -> None:
    """As in Kafka: the sequence is the producer's, inside and outside of transactions."""

    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        transactional_id = producer.transactional_id

        async def outside() -> list[int]:
            batch = producer.batch(0, b"idempotent", attributes=0)
            producer.transactional_id = None  # type: ignore[assignment]
            request = producer.request((0, batch))
            producer.transactional_id = transactional_id
            answer = await producer.ask(apis.PRODUCE, 12, request)
            return [part.error_code for part in answer.responses[0].partition_responses]

        assert await outside() == [OK]
        producer._sequences[0] = 5
        assert await producer.write({0: b"x"}) == [OutOfOrderSequenceNumber.code]
        producer._sequences[0] = 1
        assert await producer.write({0: b"x"}) == [OK]
        assert await outside() == [InvalidTxnState.code]
        assert await producer.end(commit=True) == OK

    run(tmp_path, scenario)


def test_a_later_batch_does_not_pass_a_refused_first_one(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)

        async def send(sequence: int) -> int:
            producer._sequences[0] = sequence
            (code,) = await producer.write({0: b"x"})
            return code

        assert await send(0) == TransactionAbortable.code
        assert await send(5) == TransactionAbortable.code, "the transaction is checked first"
        await producer.add(0)
        assert await send(2) == OutOfOrderSequenceNumber.code
        assert await send(1) == OutOfOrderSequenceNumber.code
        assert [await send(sequence) for sequence in (0, 1, 2)] == [OK] * 3
        assert len(broker.parts.transaction_writes._lowest) == 0

    run(tmp_path, scenario)


def test_who_begins_anywhere_may_do_so(tmp_path: Path) -> None:
    """Before version 2: the partition may have lost what it knew of the producer."""

    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        producer._sequences[0] = 7
        assert await producer.write({0: b"x"}) == [TransactionAbortable.code]
        await producer.add(0)
        assert await producer.write({0: b"x"}) == [OK]
        assert await producer.end(commit=True) == OK

    run(tmp_path, scenario)


def test_refused_producers_are_not_remembered_for_ever(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        log = broker.parts.topics.log(TOPIC, 0)
        lowest = LowestSequences()
        for producer_id in range(LOWEST_MAX + 5):
            header = parse_headers(producer.batch(0, b"x"))[0]
            lowest.note(Write(log, header._replace(producer_id=producer_id)))
        assert len(lowest) == LOWEST_MAX

    run(tmp_path, scenario)


def test_plain_records_of_a_producer_with_an_open_transaction(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"x"}) == [OK]
        with pytest.raises(KafkaError) as refused:
            await broker.parts.topics.log(TOPIC, 0).append(
                producer.batch(0, b"plain", attributes=0)
            )
        assert refused.value.code == InvalidTxnState.code

    run(tmp_path, scenario)
