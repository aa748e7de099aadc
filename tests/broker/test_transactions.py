"""Transactions by wire: what a transactional producer is answered, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    OperationNotAttempted,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from sharegroup.wire import apis
from sharegroup.wire.markers import MarkerType, encode_marker
from sharegroup.wire.messages import add_partitions_to_txn as add
from sharegroup.wire.messages import describe_producers, write_txn_markers
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.end_txn import EndTxnRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker import running
from tests.broker.share_wire import until
from tests.broker.transaction_wire import TOPIC, Peer, TransactionalProducer, close_all

OK = 0
BOTH = pytest.mark.parametrize("older", [False, True], ids=["version 2", "before"])


def run(folder: Path, scenario: running.Scenario, *options: str) -> None:
    """Run ``scenario`` and close its connections."""

    async def closing(broker: Broker, port: int) -> None:
        try:
            await scenario(broker, port)
        finally:
            await close_all()

    running.run(folder, closing, *options)


async def topic(port: int, partitions: int = 2) -> Peer:
    peer = await Peer.connect(port)
    await peer.new_topic(partitions)
    return peer


async def complete(broker: Broker) -> None:
    await until(lambda: not any(each.prepared for each in broker.parts.transactions.all()))


@BOTH
def test_what_is_committed_is_read_and_what_is_aborted_is_not(tmp_path: Path, older: bool) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await topic(port)
        producer = await TransactionalProducer.start(port, older=older)
        for number, commit in enumerate([True, False, True]):
            if older:
                assert await producer.add(0, 1) == [OK, OK]
            value = b"%d" % number
            assert await producer.write({0: value, 1: value}) == [OK, OK]
            assert await producer.write({0: value}) == [OK]
            assert await peer.committed(0) == [b"0", b"0"][: 2 * number]
            assert await producer.end(commit=commit) == OK
            await complete(broker)
        assert await peer.committed(0) == [b"0", b"0", b"2", b"2"]
        assert await peer.committed(1) == [b"0", b"2"]
        assert producer.epoch == (0 if older else 3)
        broker.parts.transactions._ids("transfers").check_invariants()

    run(tmp_path, scenario)


@BOTH
def test_a_second_producer_fences_the_first_in_the_middle(tmp_path: Path, older: bool) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await topic(port)
        first = await TransactionalProducer.start(port, older=older)
        if older:
            await first.add(0)
        assert await first.write({0: b"first"}) == [OK]
        second = await TransactionalProducer.start(port, older=older)
        assert await first.write({0: b"late"}) == [InvalidProducerEpoch.code]
        assert await first.write({1: b"late"}) == [InvalidProducerEpoch.code]
        assert await first.end(commit=True) == ProducerFenced.code
        if older:
            assert await first.add(1) == [ProducerFenced.code]
            await second.add(0)
        assert await second.write({0: b"second"}) == [OK]
        assert await second.end(commit=True) == OK
        await complete(broker)
        assert await peer.committed(0) == [b"second"]

    run(tmp_path, scenario)


def test_a_partition_that_was_not_added_takes_nothing(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        peer = await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        assert await producer.write({0: b"x"}, version=10) == [InvalidTxnState.code]
        assert await producer.write({0: b"x"}, version=11) == [TransactionAbortable.code]
        await producer.add(1)
        assert await producer.write({0: b"x", 1: b"y"}) == [TransactionAbortable.code, OK]
        assert await producer.end(commit=True) == OK
        assert await producer.write({1: b"z"}, version=10) in (
            [InvalidTxnState.code],
            [19],  # NOT_ENOUGH_REPLICAS, while the marker is being written: try again
        )
        assert await peer.committed(0) == []

    run(tmp_path, scenario)


def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        assert await producer.write({0: b"x"}) == [OK]

    run(tmp_path, scenario, "transaction.partition.verification.enable=false")


def test_before_version_2_every_added_partition_gets_a_marker(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        written, never = (broker.parts.topics.log(TOPIC, partition) for partition in (0, 1))
        for number in range(1, 4):
            assert await producer.add(0, 1) == [OK, OK]
            assert await producer.write({0: b"x"}) == [OK]
            assert await producer.end(commit=number != 2) == OK
            await complete(broker)
            assert (written.log_end_offset, never.log_end_offset) == (2 * number, number)
        assert await producer.add(1) == [OK]
        producer._sequences[1] = 9
        assert await producer.write({1: b"y"}) == [OutOfOrderSequenceNumber.code]
        producer._sequences[1] = 0
        assert await producer.write({1: b"y"}) == [OK]

    run(tmp_path, scenario)


def test_a_partition_that_knows_a_later_producer_gets_no_marker(tmp_path: Path) -> None:
    """A later epoch ended the transaction by hand; the marker would let the earlier one in."""

    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        await producer.add(0)
        assert await producer.write({0: b"x"}) == [OK]
        log = broker.parts.topics.internal_log(TOPIC, 0)
        written = encode_marker(
            MarkerType.ABORT, producer_id=producer.producer_id, producer_epoch=7, timestamp_ms=0
        )
        end = log.append_trusted(written).last_offset + 1
        assert await producer.end(commit=True) == OK
        await complete(broker)
        assert log.log_end_offset == end == 2
        assert log.producer_states.epoch_of(producer.producer_id) == 7

    run(tmp_path, scenario)


def test_transactional_records_need_their_id(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        for nobody in ("", None):
            producer.transactional_id = nobody  # type: ignore[assignment]
            assert await producer.write({0: b"x"}) == [TransactionalIdAuthorizationFailed.code]
        producer.transactional_id = "another"
        assert await producer.write({0: b"x"}) == [InvalidProducerIdMapping.code]

    run(tmp_path, scenario)


def test_a_transaction_times_out(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.initialize(timeout_ms=50) == OK
        assert await producer.write({0: b"x"}) == [OK]
        log = broker.parts.topics.log(TOPIC, 0)
        await until(lambda: log.last_stable_offset == 2)  # its marker
        assert await producer.write({0: b"late"}) == [InvalidProducerEpoch.code]
        assert await producer.end(commit=True) == TransactionAbortable.code
        assert await producer.end(commit=False) == OK  # and so it goes on
        assert await producer.write({0: b"again"}) == [OK]
        assert await producer.end(commit=True) == OK
        await complete(broker)
        assert await peer.committed(0) == [b"again"]

    run(tmp_path, scenario)


def test_initialising_has_bounds(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        peer = await Peer.connect(port)

        async def code(name: str, timeout_ms: int, *known: int) -> int:
            request = InitProducerIdRequest(name, timeout_ms, *known)
            found: int = (await peer.ask(apis.INIT_PRODUCER_ID, 5, request)).error_code
            return found

        assert await code("x", 1000) == OK
        assert await code("x", 1001) == InvalidTransactionTimeout.code
        assert await code("x", 0) == InvalidTransactionTimeout.code
        assert await code("", 1000) == InvalidRequest.code
        assert await code("x", 1000, 5, -1) == InvalidRequest.code
        assert await code("x", 1000, -1, 5) == InvalidRequest.code
        assert await code("x", 1000, 5, 5) == ProducerFenced.code

    run(tmp_path, scenario, "transaction.max.timeout.ms=1000")


def test_a_producer_without_transactions_gets_an_id_of_its_own(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        peer = await Peer.connect(port)
        seen = []
        for known in ((-1, -1), (-1, -1), (7, 3)):
            request = InitProducerIdRequest(None, 0, *known)
            answer = await peer.ask(apis.INIT_PRODUCER_ID, 5, request)
            assert (answer.error_code, answer.producer_epoch) == (OK, 0)
            seen.append(answer.producer_id)
        assert len({*seen, 7}) == 4

    run(tmp_path, scenario)


def test_nobody_can_ask_for_two_phases(tmp_path: Path) -> None:
    """The version with them (KIP-939) is not advertised; nor is it by Kafka 4.4."""

    async def scenario(_: Broker, port: int) -> None:
        peer = await Peer.connect(port)
        answer = await peer.ask(apis.API_VERSIONS, 4, ApiVersionsRequest("tests", "1"))
        newest = {each.api_key: each.max_version for each in answer.api_keys}
        assert newest[apis.INIT_PRODUCER_ID.key] == 5

    run(tmp_path, scenario)


def test_a_transactional_id_cannot_be_empty(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        producer.transactional_id = ""
        assert await producer.initialize() == InvalidRequest.code
        assert await producer.add(0) == [InvalidRequest.code]
        assert await producer.end(commit=True) == InvalidRequest.code

    run(tmp_path, scenario)


def test_partitions_are_added_all_or_none(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        none = OperationNotAttempted.code
        assert await producer.add(0, 2) == [none, UnknownTopicOrPartition.code]
        assert await producer.add(0, -1) == [none, UnknownTopicOrPartition.code]
        internal = await producer.add(0, topic="__consumer_offsets")
        assert internal == [TopicAuthorizationFailed.code]
        found = broker.parts.transactions.find("transfers")
        assert found is not None
        assert found.partitions == frozenset()

    run(tmp_path, scenario)


def test_brokers_may_verify_many_transactions(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        peer = await topic(port)
        producer = await TransactionalProducer.start(port, older=True)
        await producer.add(0)

        async def codes(version: int, producer_id: int, *, verify_only: bool) -> list[int]:
            one = add.AddPartitionsToTxnTransaction(
                "transfers",
                producer_id,
                producer.epoch,
                verify_only,
                [add.AddPartitionsToTxnTopic(TOPIC, [0, 1])],
            )
            request = add.AddPartitionsToTxnRequest(transactions=[one])
            answer = await peer.ask(apis.ADD_PARTITIONS_TO_TXN, version, request)
            (result,) = answer.results_by_transaction
            (found,) = result.topic_results
            return [each.partition_error_code for each in found.results_by_partition]

        own = producer.producer_id
        assert await codes(5, own, verify_only=True) == [OK, TransactionAbortable.code]
        assert await codes(4, own, verify_only=True) == [OK, InvalidTxnState.code]
        assert await codes(5, 99, verify_only=True) == [InvalidProducerIdMapping.code] * 2
        assert await codes(5, own, verify_only=False) == [OK, OK]
        assert await codes(5, own, verify_only=True) == [OK, OK]

    run(tmp_path, scenario)


async def describe(peer: Peer, *names: str) -> list[Any]:
    request = DescribeTransactionsRequest(list(names))
    states: list[Any] = (await peer.ask(apis.DESCRIBE_TRANSACTIONS, 0, request)).transaction_states
    return states


def test_transactions_are_described_and_listed(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        peer = await topic(port)
        idle = await TransactionalProducer.start(port, "idle")
        busy = await TransactionalProducer.start(port, "busy")
        assert await busy.write({1: b"x", 0: b"y"}) == [OK, OK]
        one, two, none, empty = await describe(peer, "idle", "busy", "nobody", "")
        assert (one.transaction_state, list(one.topics)) == ("Empty", [])
        assert (one.producer_id, one.producer_epoch) == (idle.producer_id, 0)
        assert two.transaction_state == "Ongoing"
        assert [(each.topic, each.partitions) for each in two.topics] == [(TOPIC, [0, 1])]
        assert two.transaction_timeout_ms == 60_000
        assert 0 <= broker.parts.clock.wall_ms() - two.transaction_start_time_ms < 60_000
        assert [none.error_code, empty.error_code] == [
            TransactionalIdNotFound.code,
            InvalidRequest.code,
        ]

        async def names(*filters: Any) -> list[str]:
            request = ListTransactionsRequest(*filters)
            answer = await peer.ask(apis.LIST_TRANSACTIONS, 2, request)
            assert answer.error_code == OK
            return sorted(each.transactional_id for each in answer.transaction_states)

        assert await names() == ["busy", "idle"]
        assert await names(["Ongoing", "NoSuchState"]) == ["busy"]
        assert await names(["NoSuchState"]) == []
        assert await names([], [idle.producer_id]) == ["idle"]
        assert await names([], [], 60_000) == []
        assert await names([], [], -1, "i.*") == ["idle"]
        assert await names([], [], -1, "dl") == [], "all of the id has to match"
        assert await names([], [], -1, "") == ["busy", "idle"]
        request = ListTransactionsRequest(transactional_id_pattern="(")
        answer = await peer.ask(apis.LIST_TRANSACTIONS, 2, request)
        assert answer.error_code == InvalidRegularExpression.code
        await busy.end(commit=False)
        await complete(broker)
        assert await names(["CompleteAbort"]) == ["busy"]

    run(tmp_path, scenario)


def test_a_transaction_is_ended_by_hand(tmp_path: Path) -> None:
    """As ``kafka-transactions abort`` does with a transaction that hangs."""

    async def scenario(broker: Broker, port: int) -> None:
        peer = await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"x"}) == [OK]
        wanted = describe_producers.TopicRequest(TOPIC, [0, 7])
        answer = await peer.ask(
            apis.DESCRIBE_PRODUCERS, 0, describe_producers.DescribeProducersRequest([wanted])
        )
        here, nowhere = answer.topics[0].partitions
        assert nowhere.error_code == UnknownTopicOrPartition.code
        (found,) = here.active_producers
        assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
        assert (found.last_sequence, found.current_txn_start_offset) == (0, 0)

        async def end(version: int, epoch: int, coordinator_epoch: int, partition: int = 0) -> int:
            where = write_txn_markers.WritableTxnMarkerTopic(TOPIC, [partition])
            marker = write_txn_markers.WritableTxnMarker(
                found.producer_id, epoch, False, [where], coordinator_epoch, 2
            )
            request = write_txn_markers.WriteTxnMarkersRequest([marker])
            answer = await peer.ask(apis.WRITE_TXN_MARKERS, version, request)
            code: int = answer.markers[0].topics[0].partitions[0].error_code
            return code

        assert await end(2, 0, 3) == InvalidProducerEpoch.code  # newer clients need a newer epoch
        assert await end(1, 0, 3) == OK
        assert await end(1, 0, 2) == TransactionCoordinatorFenced.code
        assert await end(2, 1, 3) == OK
        assert await end(1, 0, 3) == InvalidProducerEpoch.code
        assert await end(1, 1, 3, partition=7) == UnknownTopicOrPartition.code
        log = broker.parts.topics.log(TOPIC, 0)
        assert log.last_stable_offset == log.high_watermark == 3
        assert await peer.committed(0) == []

    run(tmp_path, scenario)


def test_a_deleted_topic_does_not_hold_its_transaction(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"x", 1: b"y"}) == [OK, OK]
        found = broker.parts.topics.find(TOPIC)
        assert found is not None
        await broker.parts.topics.delete(found)
        assert await producer.end(commit=True) == OK
        await complete(broker)

    run(tmp_path, scenario)


def test_ending_again_and_ending_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.end(commit=True) == InvalidTxnState.code
        assert await producer.write({0: b"x"}) == [OK]
        request = EndTxnRequest("transfers", producer.producer_id, producer.epoch, True)
        answers = [await producer.ask(apis.END_TXN, 5, request) for _ in range(2)]
        assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
            (OK, producer.producer_id, 1)
        ] * 2
        request = EndTxnRequest("transfers", producer.producer_id, producer.epoch, False)
        again = await producer.ask(apis.END_TXN, 5, request)
        assert again.error_code == InvalidTxnState.code
        request = EndTxnRequest("nobody", 1, 0, False)
        assert (await producer.ask(apis.END_TXN, 5, request)).error_code == (
            InvalidProducerIdMapping.code
        )

    run(tmp_path, scenario)


def test_the_feature_is_finalised(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        peer = await Peer.connect(port)
        answer = await peer.ask(apis.API_VERSIONS, 4, ApiVersionsRequest("tests", "1"))
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        assert levels["transaction.version"] == 2

    run(tmp_path, scenario)


def test_ids_and_open_transactions_are_there_after_a_restart(tmp_path: Path) -> None:
    async def before(_: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"x"}) == [OK]

    async def after(broker: Broker, port: int) -> None:
        found = broker.parts.transactions.find("transfers")
        assert found is not None
        producer = await TransactionalProducer.start(port)
        assert producer.producer_id == found.producer_id
        assert producer.epoch == 2  # the open transaction was aborted on the way
        peer = await Peer.connect(port)
        assert await peer.committed(0) == []
        log = broker.parts.topics.log(TOPIC, 0)
        assert log.last_stable_offset == log.high_watermark == 2

    run(tmp_path, before)
    run(tmp_path, after)


def test_silent_producers_are_forgotten_as_often_as_asked_for(tmp_path: Path) -> None:
    """One with an open transaction is kept."""

    async def scenario(broker: Broker, port: int) -> None:
        await topic(port)
        producer = await TransactionalProducer.start(port)
        assert await producer.write({0: b"open", 1: b"ended"}) == [OK, OK]
        assert await producer.end(commit=True) == OK
        await complete(broker)
        assert await producer.write({0: b"open"}) == [OK]
        states = [broker.parts.topics.log(TOPIC, at).producer_states for at in (0, 1)]
        await until(lambda: not states[1].active())
        assert [state.transaction_start for state in states[0].active()] == [2]

    run(
        tmp_path,
        scenario,
        "producer.id.expiration.ms=1",
        "producer.id.expiration.check.interval.ms=1",
    )
