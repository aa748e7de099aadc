"""Requests that Apache Kafka and this broker answer differently, each for a reason that is declared
in `tests/conformance/differences.csv`; what else is told beside it is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import product
from typing import Any, Final, TypeAlias

import pytest

from sharegroup.model.errors import ConcurrentTransactions
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_headers, with_records
from sharegroup.wire.compression import LZ4, compress
from sharegroup.wire.messages import alter_configs as replacing
from sharegroup.wire.messages import produce as producing
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.transaction_wire import Peer, TransactionalProducer, close_all
from tests.differential.differences import Seen, compare, declared
from tests.differential.player import error_name
from tests.differential.test_answers import OPTIONS, begun, new_topic, settled
from tests.differential.wire_member import COORDINATOR_LOADING, WireMember
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

Scenario: TypeAlias = Callable[[int], Coroutine[Any, Any, list[str]]]

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


async def fencing(port: int) -> list[str]:
    """In each state of a transaction, by each who may ask."""
    await new_topic(port, "jobs")
    return [
        await fence(port, state, caller, older=older)
        for state, caller, older in product(STATES, CALLERS, (False, True))
    ]


async def records_with_one_offset(port: int) -> list[str]:
    """Three records whose own offsets are all that of the batch, plain and compressed."""
    await new_topic(port, "lying")
    peer = await Peer.connect(port)
    lines = []
    for codec, how in ((0, "plain"), (LZ4, "compressed")):
        one = encode_batch([(b"k", b"v")], timestamp_ms=0)
        header = parse_headers(one)[0]._replace(
            last_offset_delta=2, record_count=3, attributes=codec
        )
        body = one[HEADER_BYTES:] * 3
        batch = with_records(header, compress(codec, body) if codec else body)
        data = [producing.PartitionProduceData(0, batch)]
        topic = producing.TopicProduceData("lying", NULL_TOPIC_ID, data)
        answer = await peer.ask(
            apis.PRODUCE, 11, producing.ProduceRequest(None, -1, 10_000, [topic])
        )
        code = answer.responses[0].partition_responses[0].error_code
        lines.append(f"produce({how}, one offset) -> {error_name(code)}")
    return lines


async def defaults_that_are_replaced(port: int) -> list[str]:
    """AlterConfigs of one broker, and of every broker."""
    peer = await Peer.connect(port)
    lines = []
    for name, whose in (("1", "own"), ("", "every broker's")):
        config = replacing.AlterableConfig("log.retention.ms", "70000")
        resource = replacing.AlterConfigsResource(4, name, [config])
        request = replacing.AlterConfigsRequest([resource], True)
        [answer] = (await peer.ask(apis.ALTER_CONFIGS, 1, request)).responses
        lines.append(f"replace({whose}) -> {error_name(answer.error_code)}")
    return lines


async def delivery_state_that_nobody_has_made(port: int) -> list[str]:
    """A member of a group that no heartbeat has begun reads a topic that is there."""
    await new_topic(port, "unread")
    peer = await Peer.connect(port)
    asked = MetadataRequest([MetadataRequestTopic(name="unread")])
    [topic] = (await peer.ask(apis.METADATA, 12, asked)).topics
    member = WireMember(port, "nobody", "member", topic.topic_id, partitions=1)
    code = 0
    while code == 0 or code in COORDINATOR_LOADING:
        response = await member.fetch(1, 1, 0, 0)
        found = [part.error_code for topic in response.responses for part in topic.partitions]
        code = max(found, key=abs, default=0)
    member.disconnect()
    return [f"share_fetch(no state) -> {error_name(code)}"]


SCENARIOS: Final[dict[Scenario, str]] = {
    fencing: "fence(Ongoing",
    records_with_one_offset: "produce(",
    defaults_that_are_replaced: "replace(every",
    delivery_state_that_nobody_has_made: "share_fetch(",
}
"""With how the lines begin that may differ, and must: nobody would miss a row of the table."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_differs_is_declared(
    ours: RunningServer, kafka: RunningServer, scenario: Scenario
) -> None:
    def told(server: RunningServer) -> list[str]:
        async def whole() -> list[str]:
            try:
                return await scenario(int(server.bootstrap.rpartition(":")[2]))
            finally:
                await close_all()

        return asyncio.run(whole())

    known = declared()
    seen = [(both, compare(*both, known)) for both in zip(told(kafka), told(ours), strict=True)]
    assert [both for both, how in seen if how is Seen.DIFFERENT] == []
    other = {kafkas for (kafkas, _), how in seen if how is Seen.DECLARED}
    assert other, "they say the same now: strike the row from the table"
    assert all(line.startswith(SCENARIOS[scenario]) for line in other), other
