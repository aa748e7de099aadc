"""What stock admin clients do to topics through brokers in front of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource
from kafka.admin import KafkaAdminClient

from tests.foreign.tool_shell import ToolShell
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.upstream.reading import read

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:alter_configs has been deprecated"),
]
LETTERS = "errors.deadletterqueue.group.enable"
RECORD = 70
"""So many bytes a record has in its log, at least."""


@pytest.fixture(scope="module")
def other(
    cluster: RunningServer, node: SharegroupServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharegroupServer]:
    """A second broker beside ``node``."""
    with SharegroupServer(
        tmp_path_factory.mktemp("other"), arguments=["--upstream", cluster.bootstrap]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("classes")) as running:
        yield running


def own_configs(at: str, topic: str) -> dict[str, str | None]:
    """What is set for the topic itself."""
    client = admin.Admin(at).client
    (done,) = client.describe_configs([ConfigResource("topic", topic)]).values()
    found = done.result(admin.ADMIN_SECONDS).values()
    return {
        one.name: one.value
        for one in found
        if not one.is_default and one.name != "min.insync.replicas"
    }


def replace(at: str, topic: str, configs: Mapping[str, str]) -> None:
    client = admin.Admin(at).client
    resource = ConfigResource("topic", topic, set_config=dict(configs))
    for done in client.alter_configs([resource]).values():
        done.result(admin.ADMIN_SECONDS)


def test_all_settings_of_a_topic_are_replaced(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    ours, topic = admin.Admin(node.bootstrap), "dlq.replaced"
    ours.create_topic(topic, **{"segment.ms": "7000", LETTERS: "true"})
    replace(node.bootstrap, topic, {"retention.ms": "5000", LETTERS: "true"})
    while own_configs(cluster.bootstrap, topic) != {"retention.ms": "5000"}:
        continue  # Kafka's brokers hear of a change later than whoever has made it
    assert own_configs(node.bootstrap, topic) == {"retention.ms": "5000", LETTERS: "true"}
    replace(node.bootstrap, topic, {})
    while own_configs(cluster.bootstrap, topic):
        continue
    assert own_configs(node.bootstrap, topic) == {}


def test_each_replica_is_in_a_log_folder_once(
    node: SharegroupServer, other: SharegroupServer, shell: ToolShell
) -> None:
    topic, partitions = "sized", 6
    admin.Admin(node.bootstrap).create_topic(topic, partitions=partitions)
    admin.produce(node.bootstrap, topic, [b"%0100d" % n for n in range(100)])
    words = ("--describe", "--topic-list", topic)
    for broker in (node, other):
        ran = shell.run("kafka-log-dirs", broker.bootstrap, *words)
        [line] = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        told = json.loads(line)["brokers"]
        assert len(told) == 2
        found = [part for one in told for each in one["logDirs"] for part in each["partitions"]]
        assert sorted(part["partition"] for part in found) == [
            f"{topic}-{number}" for number in range(partitions)
        ]
        assert sum(part["size"] for part in found) > 100 * RECORD
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    folders = [each for one in client.describe_log_dirs([topic]) for each in one["log_dirs"]]
    client.close()
    assert sum(len(each["partitions"]) for one in folders for each in one["topics"]) == partitions


def test_what_has_settings_is_listed(other: SharegroupServer) -> None:
    ours = admin.Admin(other.bootstrap)
    ours.create_topic("with-settings")
    ours.start_group_at_earliest("with-settings")
    client = KafkaAdminClient(bootstrap_servers=other.bootstrap)
    while "with-settings" not in (found := client.list_config_resources()).get("topic", ()):
        continue  # a broker of ours hears later of a topic that was made through another one
    nodes = sorted(str(one["broker_id"]) for one in client.describe_cluster()["brokers"])
    client.close()
    assert len(nodes) == 2
    assert found["broker"] == found["broker_logger"] == nodes
    assert "with-settings" in found["group"]
    assert not [name for name in found["topic"] if name.startswith("__")]
    assert "client_metrics" not in found


def test_a_transaction_is_ended_by_hand(node: SharegroupServer, shell: ToolShell) -> None:
    topic = "hanging"
    admin.Admin(node.bootstrap).create_topic(topic)
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": "hangs", **admin.SILENT}
    producer = Producer(settings)
    producer.init_transactions(admin.ADMIN_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"never committed")
    producer.flush(admin.ADMIN_SECONDS)
    admin.produce(node.bootstrap, topic, [b"later"])
    words = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    ran = shell.run("kafka-transactions", node.bootstrap, *words)
    assert ran.status == 0, ran
    read(node.bootstrap, "readers-of-hanging", topic, 1)
