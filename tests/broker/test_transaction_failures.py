"""Transactions on a disk without space, and time: in virtual time."""

from __future__ import annotations

import asyncio

from sharegroup.broker.coordination.transaction_machine import TransactionMachine
from sharegroup.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotEnoughReplicas,
    TransactionalIdNotFound,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch, parse_header, with_records
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker.group_wire import World, simulate
from tests.broker.transaction_wire import TOPIC, Peer, TransactionalProducer, close_all

OK = 0


async def started(world: World, transactional_id: str = "transfers") -> TransactionalProducer:
    return await TransactionalProducer.start(world._port, transactional_id)


async def state(peer: Peer, transactional_id: str = "transfers") -> str | int:
    """The state of an id, or its error code."""
    request = DescribeTransactionsRequest([transactional_id])
    (found,) = (await peer.ask(apis.DESCRIBE_TRANSACTIONS, 0, request)).transaction_states
    name: str | int = found.error_code or found.transaction_state
    return name


def test_an_outcome_that_cannot_be_written_is_not_decided() -> None:
    async def scenario(world: World) -> None:
        producer = await started(world)
        await producer.new_topic(2)
        assert await producer.write({0: b"x"}) == [OK]
        world.disk.full_for = "__transaction_state"
        assert await producer.end(commit=True) == CoordinatorNotAvailable.code
        assert await state(producer) == "Ongoing"
        assert await producer.write({0: b"y"}) == [OK]
        assert await producer.write({1: b"z"}) == [NotEnoughReplicas.code]
        assert await producer.initialize() == CoordinatorNotAvailable.code
        world.disk.full_for = ""
        assert await producer.write({1: b"z"}) == [OK]
        assert await producer.end(commit=True) == OK
        await asyncio.sleep(1)
        assert await state(producer) == "CompleteCommit"
        assert await producer.committed(0) == [b"x", b"y"]
        assert await producer.committed(1) == [b"z"]
        await close_all()

    simulate(scenario)


def test_markers_are_written_when_there_is_space_again() -> None:
    async def scenario(world: World) -> None:
        producer = await started(world)
        await producer.new_topic(2)
        assert await producer.write({0: b"x", 1: b"y"}) == [OK, OK]
        world.disk.full_for = f"{TOPIC}-1"
        assert await producer.end(commit=True) == OK
        await asyncio.sleep(30)
        assert await state(producer) == "PrepareCommit"
        # The next transaction has to wait, and its producer is told so.
        assert await producer.write({0: b"next"}) == [ConcurrentTransactions.code]
        assert await producer.initialize() == ConcurrentTransactions.code
        assert await producer.committed(0) == [b"x"]
        assert await producer.committed(1) == []
        world.disk.full_for = ""
        await asyncio.sleep(10)
        assert await state(producer) == "CompleteCommit"
        assert await producer.committed(1) == [b"y"]
        assert world.broker.parts.topics.log(TOPIC, 0).log_end_offset == 2  # one marker
        await close_all()

    simulate(scenario)


def test_a_completion_that_cannot_be_written_is_repeated() -> None:
    """The log of transactions is full when the markers are written."""

    async def scenario(world: World) -> None:
        producer = await started(world)
        await producer.new_topic(2)
        assert await producer.write({0: b"x", 1: b"y"}) == [OK, OK]
        world.disk.full_for = f"{TOPIC}-1"
        assert await producer.end(commit=True) == OK
        await asyncio.sleep(30)
        world.disk.full_for = "__transaction_state"
        await asyncio.sleep(30)
        assert await producer.committed(1) == [b"y"]
        assert await state(producer) == "PrepareCommit"
        world.disk.full_for = ""
        await asyncio.sleep(30)
        assert await state(producer) == "CompleteCommit"
        for partition in (0, 1):  # one marker each
            assert world.broker.parts.topics.log(TOPIC, partition).log_end_offset == 2
        assert await producer.write({0: b"next"}) == [OK]
        assert await producer.end(commit=True) == OK
        await close_all()

    simulate(scenario)


def test_the_record_of_a_completion_is_synced_with_the_next_one_or_soon() -> None:
    async def scenario(world: World) -> None:
        producer = await started(world)
        await producer.new_topic(1)
        for value in (b"x", b"y"):
            assert await producer.write({0: value}) == [OK]
            assert await producer.end(commit=True) == OK
        while await state(producer) != "CompleteCommit":  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.001)
        log = world.broker.parts.topics.internal_log("__transaction_state", 0)
        assert log.high_watermark == log.log_end_offset - 1, "only the last completion waits"
        await asyncio.sleep(1)
        assert log.high_watermark == log.log_end_offset
        await close_all()

    simulate(scenario)


def test_an_empty_batch_in_the_log_holds_nothing_up() -> None:
    """As a log cleaner leaves it at the end of a segment."""

    async def scenario(world: World) -> None:
        await started(world)
        log = world.broker.parts.topics.internal_log("__transaction_state", 0)
        full = encode_batch([(b"k", b"v")], timestamp_ms=0)
        log.append_trusted(with_records(parse_header(full)._replace(record_count=0), b""))
        await log.wait_durable(log.log_end_offset)
        await close_all()
        await world.crash()
        assert await state(await Peer.connect(world._port)) == "Empty"
        producer = await started(world)
        assert producer.epoch == 1
        await close_all()

    simulate(scenario)


def test_while_the_log_cannot_be_read_clients_are_told_to_wait() -> None:
    async def scenario(world: World) -> None:
        producer = await started(world)
        (runtime,) = world.broker.parts.transactions.runtimes
        runtime._in_step = False
        assert await state(producer) == CoordinatorLoadInProgress.code
        listed = await producer.ask(apis.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
        assert listed.error_code == CoordinatorLoadInProgress.code
        assert await producer.initialize() == OK  # this waits for the load
        assert await state(producer) == "Empty"
        await close_all()

    simulate(scenario)


def test_an_idle_id_is_forgotten_also_over_a_restart() -> None:
    async def look(world: World, transactional_id: str) -> str | int:
        try:  # by a new connection: idle ones are closed
            return await state(await Peer.connect(world._port), transactional_id)
        finally:
            await close_all()

    async def scenario(world: World) -> None:
        day_s = 24 * 3600
        await started(world)
        await asyncio.sleep(3 * day_s)
        await close_all()
        await world.crash()
        await started(world, "other")
        await asyncio.sleep(3.9 * day_s)
        assert await look(world, "transfers") == "Empty"
        await asyncio.sleep(0.2 * day_s)
        assert await look(world, "transfers") == TransactionalIdNotFound.code
        await world.crash()
        assert await look(world, "transfers") == TransactionalIdNotFound.code
        assert await look(world, "other") == "Empty"

    simulate(scenario)


def test_a_long_log_is_rewritten() -> None:
    async def scenario(world: World) -> None:
        producer = await started(world)
        await producer.new_topic(1)
        for _ in range(4000):  # three records each
            await producer.write({0: b"x"})
            await producer.end(commit=True)
        log = world.broker.parts.topics.log("__transaction_state", 0)
        assert log.log_start_offset > 9000
        (runtime,) = world.broker.parts.transactions._runtimes
        before = list(runtime.machine(TransactionMachine).coordinator)
        await close_all()
        await world.crash()
        found = world.broker.parts.transactions.find("transfers")
        assert [found and (found.state, found.epoch)] == [(t.state, t.epoch) for t in before]

    simulate(scenario)
