"""Small requests whose answers once differed: our broker and Apache Kafka say the same, code by
code. Each scenario gets a port and returns what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

import pytest

from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_headers, with_records
from sharegroup.wire.compression import LZ4, compress
from sharegroup.wire.messages import create_partitions as growing
from sharegroup.wire.messages import create_topics as creating
from sharegroup.wire.messages import delete_topics as deleting
from sharegroup.wire.messages import describe_configs as describing
from sharegroup.wire.messages import incremental_alter_configs as altering
from sharegroup.wire.messages import list_offsets as finding
from sharegroup.wire.messages import metadata as asking
from sharegroup.wire.messages import produce as producing
from sharegroup.wire.messages import update_features as features
from sharegroup.wire.messages.describe_cluster import DescribeClusterRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.apache_kafka.broker import KafkaBroker
from tests.broker.transaction_wire import Peer, TransactionalProducer, close_all
from tests.differential import log_answers, share_answers
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

Scenario: TypeAlias = Callable[[int], Coroutine[Any, Any, object]]

OPTIONS = (
    "broker.rack=cellar",
    "log.cleaner.threads=3",
    "offsets.topic.num.partitions=3",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=2",
    "share.coordinator.state.topic.num.partitions=2",
    "share.coordinator.state.topic.replication.factor=1",
)
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
CONCURRENT_TRANSACTIONS = 51
SET, DELETE, APPEND, SUBTRACT = range(4)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FEATURE_LEVELS: Final[tuple[tuple[tuple[str, int, int], ...], ...]] = (
    (),
    (("group.version", 1, UPGRADE),),
    (("group.version", 1, SAFE_DOWNGRADE),),
    (("group.version", 1, UNSAFE_DOWNGRADE), ("transaction.version", 2, UPGRADE)),
    (("group.version", 1, UPGRADE), ("group.version", 1, UPGRADE)),
    (("group.version", 0, UPGRADE),),
    (("group.version", 9, UPGRADE),),
    (("group.version", 9, SAFE_DOWNGRADE),),
    (("group.version", -1, UPGRADE),),
    (("group.version", 1, UPGRADE), ("transaction.version", 3, UPGRADE)),
    (("group.version", 9, UPGRADE), ("group.version", 1, UPGRADE)),
    (("group.version", 1, UPGRADE), ("group.version", 9, UPGRADE)),
    (("no.such", 1, UPGRADE),),
    (("no.such", 0, UPGRADE),),
    (("no.such", 0, SAFE_DOWNGRADE),),
    (("", 1, UPGRADE),),
    (("group.version", 1, 0),),
    (("group.version", -1, 7),),
    (("no.such", -1, 7),),
)
"""Name, level and kind of update, for one request each. Where two of them fail, Kafka names the
first one of a hash map."""
LISTS = (
    *("", ",", " ", "compact,", ",compact", "compact,compact", "compact , delete"),
    *("compact,delete", "delete,,compact", "nonsense", "nonsense,compact"),
)
EVERY_BROKER = ""
OWN_NODE = "1"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), *OPTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with SharegroupServer(tmp_path_factory.mktemp("ours"), *OPTIONS) as server:
        yield server


async def new_topic(port: int, name: str, partitions: int = 1, **configs: str) -> int:
    """Make it, and wait until it takes records: Apache Kafka answers before that."""
    peer = await Peer.connect(port)
    entries = [
        creating.CreatableTopicConfig(key.replace("_", "."), value)
        for key, value in configs.items()
    ]
    topic = creating.CreatableTopic(name, partitions, -1, configs=entries)
    request = creating.CreateTopicsRequest([topic], 10_000)
    [made] = (await peer.ask(apis.CREATE_TOPICS, 7, request)).topics
    code: int = made.error_code
    wanted = [finding.ListOffsetsPartition(index, timestamp=-1) for index in range(partitions)]
    ends = finding.ListOffsetsRequest(-1, 0, [finding.ListOffsetsTopic(name, wanted)])
    told: Any = None
    while code == 0 and (told is None or any(p.error_code for p in told.topics[0].partitions)):
        told = await peer.ask(apis.LIST_OFFSETS, 7, ends)
    return code


async def begun(port: int, transactional_id: str, *, older: bool) -> TransactionalProducer:
    """A producer with an epoch, as soon as the coordinator answers."""
    producer = TransactionalProducer(*await asyncio.open_connection("127.0.0.1", port))
    producer.transactional_id, producer.older = transactional_id, older
    wanted = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    while await producer.initialize():
        await producer.ask(apis.FIND_COORDINATOR, 4, wanted)
    return producer


async def aborts_of_what_never_began(port: int) -> object:
    """What a client asks whose request for the transaction's first partition was lost in a kill."""
    await new_topic(port, "jobs", 2)
    said: list[object] = []
    for older in (True, False):
        producer = await begun(port, f"lost-{older}", older=older)
        for commit in (True, False):
            said.append((older, "nothing before", commit, await settled(producer, commit=commit)))
            while older and await producer.add(0) == [CONCURRENT_TRANSACTIONS]:
                continue
            while await producer.write({0: b"x"}) == [CONCURRENT_TRANSACTIONS]:
                continue
            assert await settled(producer, commit=commit) == 0
            again = [await settled(producer, commit=other) for other in (True, False)]
            said.append((older, commit, again))
    return said


async def settled(producer: TransactionalProducer, *, commit: bool) -> int:
    """The answer to EndTxn, when the transaction before is complete."""
    while (code := await producer.end(commit=commit)) == CONCURRENT_TRANSACTIONS:
        continue
    return code


async def outside_a_transaction(port: int) -> object:
    """A batch without the mark, in a partition of the transaction: before and after one with it."""
    await new_topic(port, "jobs", 2)
    producer = await begun(port, "outside", older=True)
    while await producer.add(0, 1) != [0, 0]:  # CONCURRENT_TRANSACTIONS
        continue
    codes = []
    for partition, first in ((0, False), (1, True)):
        if first:
            codes += await producer.write({partition: b"in it"})
        batch = producer.batch(partition, b"outside", attributes=0)
        answer = await producer.ask(apis.PRODUCE, 11, producer.request((partition, batch)))
        codes.append(answer.responses[0].partition_responses[0].error_code)
    return codes


async def a_topic_named_twice(port: int) -> object:
    peer = await Peer.connect(port)
    for name in ("twice", "once", "later"):
        await new_topic(port, name)
    topics = [growing.CreatePartitionsTopic(n, 3, None) for n in ("twice", "once", "twice")]
    grown = await peer.ask(
        apis.CREATE_PARTITIONS, 3, growing.CreatePartitionsRequest(topics, 10_000)
    )
    said: list[object] = [sorted((r.name, r.error_code, r.error_message) for r in grown.results)]
    creatable = [creating.CreatableTopic(n, 1, -1) for n in ("new", "newer", "new")]
    made = await peer.ask(apis.CREATE_TOPICS, 7, creating.CreateTopicsRequest(creatable, 10_000))
    said.append(sorted((t.name, t.error_code, t.error_message) for t in made.topics))
    by_name = [deleting.DeleteTopicState(n) for n in ("twice", "once", "twice")]
    gone = await peer.ask(
        apis.DELETE_TOPICS, 6, deleting.DeleteTopicsRequest(topics=by_name, timeout_ms=10_000)
    )
    said.append(sorted((t.name, t.error_code, t.error_message) for t in gone.responses))
    described = await peer.ask(
        apis.METADATA, 12, asking.MetadataRequest([asking.MetadataRequestTopic(name="later")])
    )
    an_id: UUID = described.topics[0].topic_id
    for states in (
        [deleting.DeleteTopicState(None, an_id)] * 2,
        [deleting.DeleteTopicState(None, an_id), deleting.DeleteTopicState("later")],
        [deleting.DeleteTopicState("later", an_id)],
        [deleting.DeleteTopicState("later")],
    ):
        request = deleting.DeleteTopicsRequest(topics=states, timeout_ms=10_000)
        gone = await peer.ask(apis.DELETE_TOPICS, 6, request)
        said.append(
            sorted((str(t.name), t.topic_id == an_id, t.error_code) for t in gone.responses)
        )
    return said


async def records_that_are_refused(port: int) -> object:
    """Which of ten records a producer must not send again."""
    peer = await Peer.connect(port)
    await new_topic(port, "keyed", cleanup_policy="compact")
    await new_topic(port, "timed", message_timestamp_before_max_ms="1000")
    records = [(None if at in (3, 7) else b"k", b"v") for at in range(10)]
    said = []
    for topic, codec in (("keyed", 0), ("timed", 0), ("keyed", LZ4)):
        batch = encode_batch(records, timestamp_ms=5_000)
        if codec:
            header = parse_headers(batch)[0]._replace(attributes=codec)
            batch = with_records(header, compress(codec, batch[HEADER_BYTES:]))
        data = [producing.PartitionProduceData(0, batch)]
        request = producing.ProduceRequest(
            None, -1, 10_000, [producing.TopicProduceData(topic, NULL_TOPIC_ID, data)]
        )
        answer = await peer.ask(apis.PRODUCE, 11, request)
        [part] = answer.responses[0].partition_responses
        said.append((part.error_code, [error.batch_index for error in part.record_errors]))
    return said


async def topics_of_the_broker_itself(port: int) -> object:
    """Without __transaction_state: Kafka's transactions hang after a client has made it."""
    codes = [
        await new_topic(port, name, partitions)
        for name, partitions in (
            ("__cluster_metadata", 1),
            ("__consumer_offsets", 3),
            ("__consumer_offsets", 3),
            ("__share_group_state", 2),
        )
    ]
    peer = await Peer.connect(port)
    wanted = [asking.MetadataRequestTopic(name="__consumer_offsets")]
    [topic] = (await peer.ask(apis.METADATA, 12, asking.MetadataRequest(wanted))).topics
    return codes, topic.is_internal, len(topic.partitions)


async def settings_of(
    port: int, kind: int, name: str, keys: Sequence[str] | None = None
) -> tuple[int, str, list[tuple[str, str | None, int, int, list[tuple[str, str | None, int]]]]]:
    peer = await Peer.connect(port)
    wanted = describing.DescribeConfigsResource(kind, name, keys)
    request = describing.DescribeConfigsRequest([wanted], True, False)
    [result] = (await peer.ask(apis.DESCRIBE_CONFIGS, 4, request)).results
    configs = [
        (
            c.name,
            c.value,
            c.config_source,
            c.config_type,
            [(s.name, s.value, s.source) for s in c.synonyms],
        )
        for c in result.configs
    ]
    return result.error_code, result.error_message or "", sorted(configs)


async def client_metrics(port: int) -> object:
    return [await settings_of(port, METRICS, name) for name in ("", "some")]


async def alter(
    port: int, name: str, setting: str, value: str | None, operation: int = SET
) -> tuple[int, str]:
    """Alter a setting of a broker, or of every broker, or delete it; what was said."""
    peer = await Peer.connect(port)
    change = altering.AlterableConfig(setting, DELETE if value is None else operation, value)
    return await altered(peer, BROKER, name, change)


async def altered(
    peer: Peer, kind: int, name: str, *changes: altering.AlterableConfig, only_check: bool = False
) -> tuple[int, str]:
    resource = altering.AlterConfigsResource(kind, name, changes)
    request = altering.IncrementalAlterConfigsRequest([resource], only_check)
    [answer] = (await peer.ask(apis.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    return answer.error_code, answer.error_message or ""


async def lists_that_are_changed(port: int) -> object:
    """By values that are empty, or there twice; and settings that are no lists, or not there."""
    await new_topic(port, "listed")
    peer = await Peer.connect(port)
    said = [
        (kind, await altered(peer, kind, "", only_check=True)) for kind in (TOPIC, BROKER, GROUP)
    ]
    for kind, name, settings in (
        (TOPIC, "listed", ("cleanup.policy", "retention.ms", "no.such")),
        (BROKER, OWN_NODE, ("log.cleanup.policy", "log.retention.ms", "no.such")),
        (BROKER, EVERY_BROKER, ("log.cleanup.policy", "log.retention.ms", "no.such")),
        (GROUP, "workers", ("share.auto.offset.reset", "no.such")),
    ):
        changes = [
            altering.AlterableConfig(setting, operation, value)
            for setting in settings
            for operation in (SET, APPEND, SUBTRACT)
            for value in (*LISTS, None)
            if operation != SET or setting == settings[0]
        ]
        said += [
            (change, await altered(peer, kind, name, change, only_check=True)) for change in changes
        ]
    return said


async def defaults_of_every_broker(port: int) -> object:
    """A broker's own value holds over the default of all, which is there when that is deleted."""
    setting = "log.retention.ms"

    async def seen() -> object:
        return [
            [
                (value, source, synonyms)
                for _, value, source, _, synonyms in (
                    await settings_of(port, BROKER, name, [setting])
                )[2]
            ]
            for name in (OWN_NODE, EVERY_BROKER)
        ]

    said: list[object] = [await seen()]
    for name, value in (
        (EVERY_BROKER, "70000"),
        (OWN_NODE, "80000"),
        (EVERY_BROKER, "90000"),
        (OWN_NODE, None),
        (OWN_NODE, "85000"),
        (EVERY_BROKER, None),
        (OWN_NODE, None),
    ):
        before = await seen()
        code = await alter(port, name, setting, value)
        while await seen() == before:  # Kafka answers before its broker has heard of it
            continue
        said.append((name, value, code, await seen()))
    return said


async def listed_defaults_of_every_broker(port: int) -> object:
    """A list that is added to begins with what the broker or the cluster has of its own."""
    setting = "log.cleanup.policy"
    said: list[object] = []
    for name, value, operation in (
        (EVERY_BROKER, "compact", APPEND),
        (OWN_NODE, "compact", APPEND),
        (OWN_NODE, "delete", SUBTRACT),
        (EVERY_BROKER, "delete", SUBTRACT),
        (OWN_NODE, None, DELETE),
        (EVERY_BROKER, None, DELETE),
    ):
        before = [await settings_of(port, BROKER, n, [setting]) for n in (OWN_NODE, EVERY_BROKER)]
        code = await alter(port, name, setting, value, operation)
        now = before
        while now == before:
            now = [await settings_of(port, BROKER, n, [setting]) for n in (OWN_NODE, EVERY_BROKER)]
        now = [await settings_of(port, BROKER, n, [setting]) for n in (OWN_NODE, EVERY_BROKER)]
        said.append((name, value, operation, code, now))
    return said


async def values_that_no_broker_can_have(port: int) -> object:
    return [
        (name, setting, await alter(port, name, setting, value))
        for name in (OWN_NODE, EVERY_BROKER)
        for setting, value in (
            ("log.retention.ms", "x"),
            ("log.segment.bytes", "x"),
            ("log.segment.bytes", "99999999999"),
            ("log.cleaner.min.cleanable.ratio", "x"),
        )
    ]


async def what_has_no_default_of_every_broker(port: int) -> object:
    """Settings that only one broker can have, and such as nobody can alter."""
    return [
        (name, await alter(port, EVERY_BROKER, name, value))
        for name, value in (
            ("node.id", "2"),
            ("ssl.client.auth", "none"),
            ("ssl.enabled.protocols", "TLSv1.3"),
            ("ssl.cipher.suites", ""),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("ssl.keystore.location", "x"),
            ("ssl.truststore.type", "PEM"),
            ("listener.name.plaintext.ssl.client.auth", "none"),
            ("listener.name.plaintext.ssl.keystore.location", "x"),
        )
    ]


async def levels_of_features(port: int) -> object:
    """Only what changes nothing: Apache Kafka does change the others."""
    peer = await Peer.connect(port)
    said: list[object] = []
    for version, validate_only in ((0, False), (1, False), (1, True), (2, False), (2, True)):
        for levels in FEATURE_LEVELS:
            updates = [
                features.FeatureUpdateKey(name, level, kind > 1, kind if version else 1)
                for name, level, kind in levels
            ]
            request = features.UpdateFeaturesRequest(10_000, updates, validate_only)
            answer = await peer.ask(apis.UPDATE_FEATURES, version, request)
            results = [(r.feature, r.error_code, r.error_message) for r in answer.results]
            said.append((version, levels, answer.error_code, answer.error_message, results))
    return said


async def brokers_that_are_not_there(port: int) -> object:
    peer = await Peer.connect(port)
    return [
        await peer.ask(apis.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id))
        for broker_id in (7, 0, -1, 2**31 - 1)
    ]


async def where_the_broker_stands(port: int) -> object:
    peer = await Peer.connect(port)
    answer = await peer.ask(apis.METADATA, 12, asking.MetadataRequest([]))
    cluster = await peer.ask(apis.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    found = [*answer.brokers, *cluster.brokers]
    return [broker.rack for broker in found]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    outside_a_transaction,
    aborts_of_what_never_began,
    a_topic_named_twice,
    records_that_are_refused,
    topics_of_the_broker_itself,
    client_metrics,
    defaults_of_every_broker,
    listed_defaults_of_every_broker,
    values_that_no_broker_can_have,
    lists_that_are_changed,
    what_has_no_default_of_every_broker,
    levels_of_features,
    brokers_that_are_not_there,
    where_the_broker_stands,
    share_answers.leaders_that_have_moved,
    share_answers.odd_acknowledgements,
    log_answers.deleted_records_by_policy,
    log_answers.settings_without_a_value,
    log_answers.epochs_that_no_leader_has_had,
    log_answers.a_repeated_batch,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_client_is_told_the_same(
    ours: RunningServer, kafka: RunningServer, scenario: Scenario
) -> None:
    def told(server: RunningServer) -> object:
        async def whole() -> object:
            try:
                return await scenario(int(server.bootstrap.rpartition(":")[2]))
            finally:
                await close_all()

        return asyncio.run(whole())

    assert told(ours) == told(kafka)
