"""`sharegroup transactions abort --topic`: a transaction that only a partition knows. Both brokers
have one when they do not ask the coordinator about a transactional write (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharegroup import sync
from sharegroup.model.ids import TopicPartition
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.transaction_wire import TOPIC, Peer, TransactionalProducer, close_all
from tests.cli.command import Commands
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

UNASKED = "transaction.partition.verification.enable=false"
BROKERS = [
    SharegroupServer,
    pytest.param(KafkaBroker, marks=pytest.mark.kafka),
]
ABORT = ("transactions", "abort", "--topic", TOPIC, "--partition")


@pytest.fixture(scope="module", params=BROKERS, ids=["sharegroup", "kafka"])
def trusting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Commands]:
    """A broker that does not verify transactional writes, with the topic."""
    folder = tmp_path_factory.mktemp("trusting")
    with request.param(folder, UNASKED) as server:

        async def topic() -> None:
            await (await Peer.connect(server.port)).new_topic(3)
            await close_all()

        asyncio.run(topic())
        yield Commands(server.bootstrap)


def hang(commands: Commands, partition: int) -> TransactionalProducer:
    """A producer whose record is in a transaction that its coordinator has never heard of."""

    async def write() -> TransactionalProducer:
        port = int(commands.bootstrap.rpartition(":")[2])
        producer = await TransactionalProducer.start(port, f"stuck-{partition}", older=True)
        assert await producer.write({partition: b"hanging"}) == [0]
        await close_all()
        return producer

    with sync.Admin(commands.bootstrap) as admin:
        admin.fence_producers(f"stuck-{partition}")  # which waits for the coordinator
    return asyncio.run(write())


def is_stable(commands: Commands, partition: int) -> bool:
    """Whether readers of committed records see all of a partition."""
    where = TopicPartition(TOPIC, partition)
    with sync.Admin(commands.bootstrap) as admin:
        last, stable = (
            admin.list_offsets([where], committed=committed)[where].offset
            for committed in (False, True)
        )
    return last == stable


def test_by_its_first_offset(trusting: Commands) -> None:
    producer = hang(trusting, 0)
    listed = trusting.ok("transactions", "list", "--state", "Ongoing", "--json").json
    assert listed == []  # so that no transactional id leads to it
    assert not is_stable(trusting, 0)

    shown = f"open there: at offset 0 (producer {producer.producer_id}, epoch {producer.epoch})"
    unnamed = trusting.inside(*ABORT, "0")
    assert unnamed.status == 1
    assert unnamed.stderr == (
        f"sharegroup: name a transaction of {TOPIC}-0 by --start-offset; {shown}\n"
    )
    wrong = trusting.inside(*ABORT, "0", "--start-offset", "7", "--yes")
    assert wrong.status == 1
    assert wrong.stderr == (
        f"sharegroup: no open transaction of {TOPIC}-0 begins at offset 7; {shown}\n"
    )
    asked = trusting.inside(*ABORT, "0", "--start-offset", "0")
    assert asked.status == 2
    assert f"abort the transaction of {TOPIC}-0 that begins at offset 0?" in asked.stderr
    assert not is_stable(trusting, 0)

    done = trusting.ok(*ABORT, "0", "--start-offset", "0", "--yes", "--json").json
    assert done == {
        "topic": TOPIC,
        "partition": 0,
        "start_offset": 0,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "coordinator_epoch": 0,
    }
    assert is_stable(trusting, 0)
    again = trusting.inside(*ABORT, "0", "--start-offset", "0", "--yes")
    assert (again.status, "none is open there" in again.stderr) == (1, True)


def test_by_its_producer(trusting: Commands) -> None:
    producer = hang(trusting, 1)
    named = ("--producer-id", str(producer.producer_id), "--producer-epoch")
    done = trusting.ok(*ABORT, "1", *named, str(producer.epoch), "--yes")
    assert done.stdout == (
        f"the transaction of {TOPIC}-1 by producer {producer.producer_id} with epoch "
        f"{producer.epoch} is aborted\n"
    )
    assert is_stable(trusting, 1)


def test_an_old_coordinator_epoch_and_an_unknown_partition(trusting: Commands) -> None:
    producer = hang(trusting, 2)
    named = ("--producer-id", str(producer.producer_id), "--coordinator-epoch", "3")
    ended = trusting.inside(*ABORT, "2", *named, "--producer-epoch", str(producer.epoch), "--yes")
    assert ended.status == 0
    older = trusting.inside(
        *ABORT, "2", *named[:3], "2", "--producer-epoch", str(producer.epoch), "--yes"
    )
    assert older.status == 1
    assert older.stderr.startswith("sharegroup: TRANSACTION_COORDINATOR_FENCED: ")
    unknown = trusting.inside(*ABORT, "9", "--start-offset", "0", "--yes")
    assert unknown.status == 1
    assert unknown.stderr.startswith("sharegroup: UNKNOWN_TOPIC_OR_PARTITION: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name transactional ids, or a partition"),
        (("an-id", "--topic", "t", "--partition", "0"), "name transactional ids, or a partition"),
        (("--topic", "t"), "--topic and --partition"),
        (("--start-offset", "1"), "--topic and --partition"),
        (("--topic", "t", "--partition", "0", "--producer-id", "1"), "--producer-epoch"),
        (("--topic", "t", "--partition", "0", "--coordinator-epoch", "1"), "--producer-epoch"),
        (
            ("--topic", "t", "--partition", "0", "--start-offset", "1", "--producer-id", "1"),
            "not by both",
        ),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    refused = Commands("127.0.0.1:1").inside("transactions", "abort", *words)
    assert refused.status == 2
    assert says in refused.stderr
