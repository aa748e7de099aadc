"""The transactional producer beside a coordinator of transaction version 1 that refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from sharegroup import Producer, TopicPartition
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.model import errors
from sharegroup.model.errors import GroupAuthorizationFailed, TopicAuthorizationFailed
from sharegroup.wire import apis
from sharegroup.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from sharegroup.wire.messages.end_txn import EndTxnResponse
from sharegroup.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from sharegroup.wire.schema import Message
from tests.client.producing_server import TOPIC, ProducingServer
from tests.client.working import run

MEMBER = MemberIdentity("g", "m", 1, None)
LOST = -2
"""In place of an answer the connection is closed."""


class CoordinatingServer(ProducingServer):
    """It coordinates transactions as Kafka does: it knows of one when something was added to it.

    ``adding`` are the error codes of the next answers about partitions and groups; ``always`` is
    the code after them. ``refused`` is set by each of these errors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.adding: list[int] = []
        self.always = errors.NONE
        self.refused = asyncio.Event()
        self.open = False
        self.handle(apis.FIND_COORDINATOR, self._coordinator, (4, 4))
        self.handle(apis.ADD_PARTITIONS_TO_TXN, self._add_partitions, (3, 3))
        self.handle(apis.ADD_OFFSETS_TO_TXN, self._add_offsets, (3, 3))
        self.handle(apis.END_TXN, self._end, (3, 3))

    def count(self, api: apis.Api) -> int:
        """How many requests of this kind have come."""
        return sum(name == api.name for name, _ in self.requests)

    async def _coordinator(self, request: Message, version: int) -> Message:
        return FindCoordinatorResponse(coordinators=[Coordinator("tx", 1, "127.0.0.1", self.port)])

    async def _add_partitions(self, request: Message, version: int) -> Message | None:
        assert isinstance(request, AddPartitionsToTxnRequest)
        code = self._next()
        if code == LOST:
            return None
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    topic.name,
                    [AddPartitionsToTxnPartitionResult(one, code) for one in topic.partitions],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    async def _add_offsets(self, request: Message, version: int) -> Message:
        return AddOffsetsToTxnResponse(error_code=self._next())

    def _next(self) -> int:
        code = self.adding.pop(0) if self.adding else self.always
        if code == LOST:
            self.drop_connections()
        elif code:
            self.refused.set()
        else:
            self.open = True
        return code

    async def _end(self, request: Message, version: int) -> Message:
        known, self.open = self.open, False
        return EndTxnResponse(error_code=errors.NONE if known else errors.InvalidTxnState.code)


def coordinated(server: CoordinatingServer, **settings: Any) -> Producer:
    return Producer(server.address, transactional_id="tx", **settings)


async def transaction(producer: Producer, work: Coroutine[Any, Any, object]) -> None:
    async with producer.transaction():
        await work


async def goes_on(server: CoordinatingServer, producer: Producer) -> None:
    """A transaction is committed, and asks for no more than it needs."""
    before = server.count(apis.ADD_PARTITIONS_TO_TXN), server.count(apis.END_TXN)
    async with producer.transaction():
        await producer.send(TOPIC, b"good")
    after = server.count(apis.ADD_PARTITIONS_TO_TXN), server.count(apis.END_TXN)
    assert after == (before[0] + 1, before[1] + 1)


async def refused(work: str, producer: Producer) -> None:
    """A transaction whose only request is refused by the coordinator."""
    if work == "partitions":
        with pytest.raises(TopicAuthorizationFailed):
            await transaction(producer, producer.send_and_wait(TOPIC, b"bad"))
    else:
        with pytest.raises(GroupAuthorizationFailed):
            await transaction(
                producer, producer.send_offsets({TopicPartition(TOPIC, 0): 1}, MEMBER)
            )


@pytest.mark.parametrize("work", ["partitions", "offsets"])
def test_a_transaction_of_which_all_was_refused_is_not_ended_at_the_coordinator(work: str) -> None:
    code = TopicAuthorizationFailed.code if work == "partitions" else GroupAuthorizationFailed.code

    async def scenario() -> None:
        async with CoordinatingServer() as server, coordinated(server) as producer:
            for _ in range(2):
                server.adding = [code]
                await refused(work, producer)
            assert server.count(apis.END_TXN) == 0
            await goes_on(server, producer)

    run(scenario)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_transaction_of_which_nothing_is_known_is_ended_at_the_coordinator(arrived: bool) -> None:
    """The answer is lost, and the next one is a refusal: something may have been added before."""

    async def scenario() -> None:
        async with CoordinatingServer() as server, coordinated(server) as producer:
            server.open = arrived
            server.adding = [LOST, TopicAuthorizationFailed.code]
            await refused("partitions", producer)
            assert server.count(apis.END_TXN) == 1
            assert not server.open
            await goes_on(server, producer)

    run(scenario)


def test_an_abort_ends_the_attempts_to_add_partitions() -> None:
    """An attempt after the end would open a transaction that nobody ends."""

    async def scenario() -> None:
        async with CoordinatingServer() as server, coordinated(server) as producer:
            server.always = errors.ConcurrentTransactions.code

            async def give_up() -> None:
                await producer.enqueue(TOPIC, b"bad")
                flushing = asyncio.create_task(producer.flush())
                await server.refused.wait()
                flushing.cancel()
                raise LookupError

            with pytest.raises(LookupError):
                await transaction(producer, give_up())
            assert server.count(apis.END_TXN) == 0
            server.always = errors.NONE
            await goes_on(server, producer)

    run(scenario)
