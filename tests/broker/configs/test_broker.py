from __future__ import annotations

import pytest

from sharegroup.broker.configs.broker import BROKER_CONFIGS, BrokerConfig, load
from sharegroup.broker.configs.described import describe_broker, describe_cluster
from sharegroup.broker.configs.listeners import Listener
from sharegroup.broker.configs.stored_passwords import warn_of_passwords, with_stored
from sharegroup.groups.config import KAFKAS_DEFAULTS, Bounded
from sharegroup.model.config import ConfigSource, format_value
from sharegroup.model.errors import ConfigError, InvalidConfig, InvalidRequest

KAFKAS_OWN = """\
# what Apache Kafka 4.4 ships as config/server.properties
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
socket.request.max.bytes=104857600
log.dirs=kraft-combined-logs
num.partitions=3
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
log.retention.hours=2
log.segment.bytes=1073741824
"""


def test_every_default_is_a_value_of_its_own_setting() -> None:
    for definition in BROKER_CONFIGS.values():
        assert definition.doc
        if definition.default is not None:
            assert definition.parse(format_value(definition.default)) == definition.default


def test_without_settings() -> None:
    config = load()
    assert config.warnings == ()
    assert config.node_id == 1
    assert config.listeners == [Listener("PLAINTEXT", "127.0.0.1", 9092)]
    assert config.advertised_listeners == []
    assert config.data_folder == "sharegroup-data"
    assert (config.retention_ms, config.segment_ms) == (604_800_000, 604_800_000)
    assert config.group_defaults() == KAFKAS_DEFAULTS
    assert config.flag("auto.create.topics.enable")
    assert config.text("flush.policy") == "durable"


def test_kafkas_own_file_is_read() -> None:
    config = load(KAFKAS_OWN)
    assert config.listeners == [Listener("PLAINTEXT", "", 9092)]
    assert config.advertised_listeners == [Listener("PLAINTEXT", "localhost", 9092)]
    assert config.data_folder == "kraft-combined-logs"
    assert config.integer("num.partitions") == 3
    assert config.retention_ms == 7_200_000
    assert [warning.split()[0] for warning in config.warnings] == [
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "inter.broker.listener.name",
        "num.network.threads",
    ]


def test_overrides_win_over_the_file() -> None:
    config = load("num.partitions=3", ["num.partitions=5", "group.share.assignors = simple"])
    assert config.integer("num.partitions") == 5
    assert config.names("group.share.assignors") == ("simple",)


def test_draft_names_are_read_with_a_warning_and_current_names_win() -> None:
    config = load("group.share.delivery.attempt.limit=7")
    assert config.group_defaults()["share.delivery.count.limit"] == Bounded(7, 2, 10)
    assert config.warnings == (
        (
            "group.share.delivery.attempt.limit is a name from a KIP draft; "
            "use group.share.delivery.count.limit"
        ),
    )
    both = "group.share.delivery.count.limit=6\ngroup.share.delivery.attempt.limit=7"
    assert load(both).integer("group.share.delivery.count.limit") == 6


def test_super_users_without_acls_give_a_warning() -> None:
    assert load("super.users=User:admin").warnings == (
        (
            "super.users does nothing without authorizer.class.name or authorizer.acl.file: "
            "everything is allowed to everybody"
        ),
    )
    for setting in ("authorizer.acl.file=acls.csv", "authorizer.class.name=StandardAuthorizer"):
        assert load(f"super.users=User:admin\n{setting}").warnings == ()


def test_acls_that_nobody_can_make_give_a_warning() -> None:
    assert load("authorizer.class.name=StandardAuthorizer").warnings == (
        "authorizer.class.name without super.users: nobody may make the first ACL",
    )


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(ConfigError, match="the one authorizer here is org"):
        load("authorizer.class.name=kafka.security.authorizer.AclAuthorizer")


def test_unsupported_replication_factors_give_a_warning() -> None:
    config = load("share.coordinator.state.topic.replication.factor=3")
    assert config.warnings == (
        (
            "share.coordinator.state.topic.replication.factor=3 does nothing here: "
            "one embedded node holds one copy"
        ),
    )


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("num.partition=3", "there is no setting num.partition; did you mean num.partitions?"),
        ("num.io.thread=3", "there is no setting num.io.thread; did you mean num.io.threads?"),
        ("colour=red", "there is no setting colour"),
        (
            "num.partitions=0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            "group.share.delivery.count.limit=11",
            (
                "Invalid value 11 for configuration group.share.delivery.count.limit: "
                "Value must be no more than 10"
            ),
        ),
        (
            "group.share.session.timeout.ms=70000",
            (
                "group.share.max.session.timeout.ms must be greater than or equal to "
                "group.share.session.timeout.ms"
            ),
        ),
        (
            "group.share.heartbeat.interval.ms=4000",
            (
                "group.share.heartbeat.interval.ms must be greater than or equal to "
                "group.share.min.heartbeat.interval.ms"
            ),
        ),
        (
            "group.share.max.share.sessions=100",
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
        ),
        (
            "group.share.assignors=range",
            (
                "Invalid value [range] for configuration group.share.assignors: "
                "the one assignor there is here is simple"
            ),
        ),
        (
            "group.coordinator.rebalance.protocols=consumer",
            (
                "Invalid value [consumer] for configuration group.coordinator.rebalance.protocols: "
                "classic cannot be switched off"
            ),
        ),
        (
            "listener.security.protocol.map=PLAINTEXT:TLS",
            (
                "listener.security.protocol.map: TLS is none of "
                "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
            ),
        ),
        (
            "listeners=OUTER://:9093",
            (
                "listeners: OUTER has no protocol; "
                "add OUTER:SASL_SSL to listener.security.protocol.map "
                "(PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)"
            ),
        ),
        ("log.dirs=a,b", "log.dirs: write one folder, there is one per broker"),
        ("num.partitions", "an override is written key=value, not 'num.partitions'"),
    ],
)
def test_refusals_are_one_sentence(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load("", [setting])
    assert str(refused.value) == sentence


def test_other_refusals() -> None:
    with pytest.raises(ConfigError, match=r"must be greater than group\.share"):
        load("group.share.heartbeat.interval.ms=60000\ngroup.share.max.heartbeat.interval.ms=60000")
    with pytest.raises(ConfigError, match="there is none to accept connections on"):
        load("listeners=CONTROLLER://:1\ncontroller.listener.names=CONTROLLER")
    with pytest.raises(ConfigError, match="SSL is no listener; the listeners are PLAINTEXT"):
        load("advertised.listeners=PLAINTEXT://a:1,SSL://b:2")
    two = "listeners=PLAINTEXT://:1,SSL://:2\n"
    with pytest.raises(ConfigError, match=r"SASL_SSL is no listener; .* PLAINTEXT, SSL"):
        load(f"{two}advertised.listeners=SASL_SSL://a:1")
    told = load(f"{two}advertised.listeners=SSL://a:3")
    assert told.advertised("SSL") == Listener("SSL", "a", 3)
    assert told.advertised("PLAINTEXT") is None  # its clients are told where they have come in
    one = load("listeners=SSL://:2\nadvertised.listeners=PLAINTEXT://a:3")
    assert one.advertised("SSL") == Listener("PLAINTEXT", "a", 3)


def test_node_ids() -> None:
    assert load("node.id=7\nbroker.id=3").node_id == 7
    assert load("broker.id=3").node_id == 3
    assert load("broker.id=-1").node_id == 1


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("log.retention.hours=1", 3_600_000),
        ("log.retention.hours=1\nlog.retention.minutes=1", 60_000),
        ("log.retention.minutes=1\nlog.retention.ms=1", 1),
        ("log.retention.hours=-1", -1),
    ],
)
def test_the_finest_retention_wins(text: str, retention_ms: int) -> None:
    assert load(text).retention_ms == retention_ms


def test_altering_a_running_broker() -> None:
    config = load("message.max.bytes=100").altered({"message.max.bytes": "200"})
    assert config.integer("message.max.bytes") == 200
    assert config.altered({}).integer("message.max.bytes") == 100
    with pytest.raises(InvalidRequest, match="Cannot update these configs dynamically"):
        config.altered({"node.id": "2"})
    with pytest.raises(InvalidConfig, match="there is no setting colour"):
        config.altered({"colour": "red"})
    with pytest.raises(InvalidConfig, match="Not a number"):
        config.altered({"message.max.bytes": "x"})


def test_describe_says_where_each_value_comes_from() -> None:
    config = BrokerConfig(static={"log.retention.ms": "5"}, dynamic={"log.retention.ms": "6"})
    entries = {entry.name: entry for entry in describe_broker(config)}
    assert list(entries) == list(BROKER_CONFIGS)
    retention = entries["log.retention.ms"]
    assert (retention.value, retention.source) == ("6", ConfigSource.DYNAMIC_BROKER)
    assert [synonym.value for synonym in retention.synonyms] == ["6", "5", "168"]
    assert not retention.read_only
    assert (entries["node.id"].value, entries["node.id"].is_default) == ("1", True)
    assert entries["node.id"].read_only
    assert entries["num.partitions"].is_default


def test_streams_groups_are_accepted_with_a_warning() -> None:
    config = load("group.coordinator.rebalance.protocols=classic,consumer,streams")
    assert config.names("group.coordinator.rebalance.protocols") == (
        "classic",
        "consumer",
        "streams",
    )
    assert [w for w in config.warnings if "no streams groups" in w]


def test_a_migration_policy_is_one_of_four_in_any_case() -> None:
    config = load("group.consumer.migration.policy=Upgrade")
    assert config.text("group.consumer.migration.policy") == "Upgrade"
    with pytest.raises(ConfigError, match="the policies are disabled, upgrade, downgrade"):
        load("group.consumer.migration.policy=sideways")


def test_defaults_of_every_broker_stand_below_its_own() -> None:
    name = "log.segment.bytes"
    config = load(f"message.max.bytes=9\n{name}=1100000").altered(cluster={name: "2000000"})
    (entry,) = describe_cluster(config)
    assert (entry.name, entry.value) == (name, "2000000")
    assert entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert [synonym.source for synonym in entry.synonyms] == [entry.source]
    assert config.integer(name) == 2_000_000
    own = config.altered({name: "3000000"})
    assert own.integer(name) == 3_000_000
    found = next(entry for entry in describe_broker(own) if entry.name == name)
    assert [(int(s.source), s.value) for s in found.synonyms[:3]] == [
        (ConfigSource.DYNAMIC_BROKER, "3000000"),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, "2000000"),
        (ConfigSource.STATIC_BROKER, "1100000"),
    ]
    assert own.altered({}).integer(name) == 2_000_000
    assert own.altered(cluster={}).altered({}).integer(name) == 1_100_000
    with pytest.raises(InvalidConfig, match="must be greater than"):
        config.altered(cluster={"group.share.session.timeout.ms": "5000"})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.max.connections", "it is for all listeners; write max.connections"),
        (
            "a.connections.authentication.timeout.ms",
            "it is for all listeners; write connections.authentication.timeout.ms",
        ),
        ("a.num.network.threads", "it tunes a part of Kafka that does not exist here"),
        (
            "a.oauthbearer.sasl.server.callback.handler.class",
            "TLS is OpenSSL's, SASL is built in",
        ),
    ],
)
def test_settings_that_kafka_has_for_one_listener(name: str, why: str) -> None:
    config = load(f"listener.name.{name}=1")
    assert config.warnings == (f"listener.name.{name} does nothing here: {why}",)


@pytest.mark.parametrize(
    "name", ["a.ssl.keystore.locatoin", "a.sasl.jaas.config", "a.plain.ssl.keystore.location"]
)
def test_what_is_no_setting_of_a_listener(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting"):
        load(f"listener.name.{name}=x")


def test_settings_of_tokens_for_the_mechanism() -> None:
    """As Kafka's documentation writes them."""
    url = "sasl.oauthbearer.jwks.endpoint.url"
    config = load(
        f"{url}=file:///all\nlistener.name.a.{url}=file:///a\n"
        f"listener.name.b.{url}=file:///b\nlistener.name.b.oauthbearer.{url}=file:///of-b"
    )
    found = [config.listener(name).text(url) for name in ("A", "B", "C")]
    assert found == ["file:///a", "file:///of-b", "file:///all"]


def test_passwords_of_an_earlier_release_hold_and_can_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Others can be altered beside them; no password gets a new value."""
    stored = {"ssl.key.password": "hunter2", "max.connections": "9"}
    warn_of_passwords(stored)
    config = with_stored(load(), stored, {})
    assert [one.getMessage().split()[2] for one in caplog.records] == ["ssl.key.password"]
    assert "hunter2" not in caplog.text
    assert config.altered({**stored, "max.connections": "8"}).dynamic["ssl.key.password"]
    with pytest.raises(InvalidRequest, match="passwords are not stored"):
        config.altered({**stored, "ssl.key.password": "other"})
    assert "ssl.key.password" not in config.altered({"max.connections": "9"}).dynamic
