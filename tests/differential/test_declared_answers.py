"""What InitProducerId is told in each state of a transaction, by whom it is asked, and what the
fenced producer is told then: the same from Apache Kafka and from us, but for what is declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from typing import Final

import pytest

from sharegroup.model.errors import ConcurrentTransactions
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.transaction_wire import TransactionalProducer, close_all
from tests.differential.differences import Seen, compare, declared
from tests.differential.player import error_name
from tests.differential.test_answers import OPTIONS, begun, new_topic, settled
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

STATES: Final = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
CALLERS: Final = ("another", "itself", "itself, an epoch ago", "a stranger")
PASSING: Final = ConcurrentTransactions.code


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), *OPTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with SharegroupServer(tmp_path_factory.mktemp("ours"), *OPTIONS) as server:
        yield server


async def patiently(ask: Callable[[], Awaitable[int]]) -> tuple[int, int]:
    """The first answer, and the first one that is not CONCURRENT_TRANSACTIONS."""
    first = last = await ask()
    while last == PASSING:
        last = await ask()
    return first, last


async def write(producer: TransactionalProducer) -> int:
    """The last answer to a record of the transaction."""

    async def added() -> int:
        return (await producer.add(0))[0]

    async def written() -> int:
        return (await producer.write({0: b"x"}))[0]

    if producer.older and (code := (await patiently(added))[1]):
        return code
    return (await patiently(written))[1]


async def bring_to(state: str, producer: TransactionalProducer) -> None:
    """Do what leads to a state, and see that it is there."""
    if state == "Empty":
        return
    assert await write(producer) == 0
    if state == "Ongoing":
        return
    assert await settled(producer, commit=state == "CompleteCommit") == 0
    wanted = DescribeTransactionsRequest([producer.transactional_id])
    seen = ""
    while seen != state:
        answer = await producer.ask(apis.DESCRIBE_TRANSACTIONS, 0, wanted)
        seen = answer.transaction_states[0].transaction_state


async def fence(port: int, state: str, caller: str, *, older: bool) -> str:
    """What the caller is told, and then the producer that was there before."""
    before = await begun(port, f"{state}-{caller}-{older}", older=older)
    assert (await patiently(before.initialize))[1] == 0  # an epoch above 0: there is one below
    await bring_to(state, before)
    asking = TransactionalProducer(*await asyncio.open_connection("127.0.0.1", port))
    asking.transactional_id, asking.older = before.transactional_id, older
    asking.producer_id = before.producer_id + (caller == "a stranger") * 1_000_000
    asking.epoch = before.epoch - (caller == "itself, an epoch ago")
    first, last = await patiently(lambda: asking.initialize(goes_on=caller != "another"))
    told = [f"first {error_name(first)}", f"last {error_name(last)}"]
    if last == 0:
        told.append(f"epoch {asking.epoch - before.epoch:+}")
        told.append("the id" if asking.producer_id == before.producer_id else "another id")
    told.append(f"before: end {error_name(await settled(before, commit=True))}")
    told.append(f"before: write {error_name(await write(before))}")
    if last == 0:
        told.append(f"after: write {error_name(await write(asking))}")
        told.append(f"after: end {error_name(await settled(asking, commit=True))}")
    return f"fence({state} by {caller}{', older' * older}) -> {', '.join(told)}"


async def fence_all(port: int) -> list[str]:
    await new_topic(port, "jobs")
    try:
        return [
            await fence(port, state, caller, older=older)
            for state, caller, older in product(STATES, CALLERS, (False, True))
        ]
    finally:
        await close_all()


def test_who_fences_and_who_is_fenced(ours: RunningServer, kafka: RunningServer) -> None:
    told = [
        asyncio.run(fence_all(int(server.bootstrap.rpartition(":")[2]))) for server in (kafka, ours)
    ]
    known = declared()
    seen = {lines: compare(*lines, known) for lines in zip(*told, strict=True)}
    assert [lines for lines, how in seen.items() if how is Seen.DIFFERENT] == []
    declared_in = {kafka_s for (kafka_s, _), how in seen.items() if how is Seen.DECLARED}
    assert declared_in == {line for line in told[0] if "first CONCURRENT_TRANSACTIONS" in line}
    assert all("fence(Ongoing" in line for line in declared_in), declared_in
