"""kafka-topics and kafka-configs of topics. Those for groups are in test_kafka_share_groups.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.foreign.tool_shell import Printed, Tool
from tests.servers.process import HOST

pytestmark = pytest.mark.kafka


def test_the_life_of_a_topic(printed: Printed, name: str) -> None:
    one = ("--topic", name)
    printed("kafka-topics", "--create", *one, "--partitions", "2", "--replication-factor", "1")
    assert name in printed("kafka-topics", "--list").split()
    assert "PartitionCount: 2" in printed("kafka-topics", "--describe", *one)

    printed("kafka-topics", "--alter", *one, "--partitions", "5")
    described = printed("kafka-topics", "--describe", *one)
    assert "PartitionCount: 5" in described
    assert described.count("Partition: ") == 5

    printed("kafka-topics", "--delete", *one)
    assert name not in printed("kafka-topics", "--list").split()


def test_a_topic_that_exists_is_not_created_again(run: Tool, topic: str) -> None:
    ran = run("kafka-topics", "--create", "--topic", topic, "--partitions", "1")
    assert ran.status == 1
    assert "already exists" in ran.stdout


def test_partitions_only_grow(run: Tool, topic: str) -> None:
    ran = run("kafka-topics", "--alter", "--topic", topic, "--partitions", "1")
    assert ran.status == 1
    assert "InvalidPartitions" in ran.stderr


def test_topic_configs(printed: Printed, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    added = "retention.ms=123456,segment.bytes=1048576"
    printed("kafka-configs", "--alter", *entity, "--add-config", added)
    described = printed("kafka-configs", "--describe", *entity)
    assert "retention.ms=123456" in described
    assert "segment.bytes=1048576" in described

    printed("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    described = printed("kafka-configs", "--describe", *entity)
    assert "retention.ms=123456" not in described
    assert "segment.bytes=1048576" in described


def test_the_log_folder_is_described(printed: Printed, topic: str) -> None:
    text = printed("kafka-log-dirs", "--describe", "--topic-list", topic)
    [line] = [line for line in text.splitlines() if line.startswith("{")]
    [broker] = json.loads(line)["brokers"]
    [folder] = broker["logDirs"]
    assert folder["error"] is None
    assert f"{topic}-0" in [part["partition"] for part in folder["partitions"]]


def test_no_election_is_needed(run: Tool, topic: str) -> None:
    ran = run(
        *("kafka-leader-election", "--election-type", "preferred"),
        *("--topic", topic, "--partition", "0"),
    )
    assert f"Valid replica already elected for partitions {topic}-0" in ran.stdout, ran
    ran = run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert ran.status == 0, ran


def test_partitions_stay_where_they_are(printed: Printed, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    file = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in printed("kafka-reassign-partitions", "--execute", *file)
    assert "is completed" in printed("kafka-reassign-partitions", "--verify", *file)
    listed = printed("kafka-reassign-partitions", "--list")
    assert "No partition reassignments found." in listed


def test_the_configs_of_every_kind_of_resource(
    printed: Printed, run: Tool, topic: str, name: str
) -> None:
    """Each begins with ListConfigResources, or with DescribeClientQuotas."""
    listed = ("kafka-configs", "--describe", "--entity-type")
    assert f"Dynamic configs for topic {topic} are:" in printed(*listed, "topics")
    printed(
        *("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", name),
        *("--add-config", "consumer.session.timeout.ms=50000"),
    )
    assert "consumer.session.timeout.ms=50000" in printed(*listed, "groups")
    assert printed(*listed, "client-metrics") == ""
    for kind in ("clients", "ips"):
        ran = run(*listed, kind)
        assert (ran.status, ran.stdout) == (0, ""), ran


def test_acls_are_not_there_without_a_file(run: Tool) -> None:
    ran = run("kafka-acls", "--list")
    assert ran.status == 1
    assert "SecurityDisabledException: No Authorizer is configured" in ran.stdout + ran.stderr


def test_features_are_described(printed: Printed) -> None:
    lines = printed("kafka-features", "describe").splitlines()
    levels = {line.split()[1]: line.split("FinalizedVersionLevel: ")[1][0] for line in lines}
    assert (levels["group.version"], levels["share.version"]) == ("1", "2")
    assert levels["transaction.version"] == "2"


def test_the_cluster_is_described(printed: Printed) -> None:
    assert printed("kafka-cluster", "cluster-id").startswith("Cluster ID: ")
    for more in ((), ("--include-fenced-brokers",)):
        head, row = printed("kafka-cluster", "list-endpoints", *more).splitlines()
        assert head.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
        assert row.split()[:2] == ["1", HOST]
        assert row.split()[3:] == ["null", "unfenced", "broker"]


def test_features_and_brokers_that_are_not_changed(run: Tool) -> None:
    wanted = ("--feature", "group.version=1", "--feature", "transaction.version=2")
    upgrade = run("kafka-features", "upgrade", *wanted)
    assert (upgrade.status, upgrade.stdout) == (
        0,
        "group.version was upgraded to 1.\ntransaction.version was upgraded to 2.\n",
    )
    upgrade = run("kafka-features", "upgrade", "--feature", "group.version=9")
    assert upgrade.status == 1
    assert "Local controller 1 only supports versions 0-1" in upgrade.stdout + upgrade.stderr
    downgrade = run("kafka-features", "downgrade", "--feature", "group.version=1")
    assert downgrade.status == 0
    unregister = run("kafka-cluster", "unregister", "--id", "7")
    assert "Broker ID 7 is not currently registered" in unregister.stderr


def configs_of(text: str) -> dict[str, str]:
    """Setting → value, of what kafka-configs prints."""
    lines = [line.strip() for line in text.splitlines() if " sensitive=" in line]
    return dict(line.partition(" sensitive=")[0].split("=", 1) for line in lines)


def test_all_settings_are_shown(printed: Printed, run: Tool, topic: str, name: str) -> None:
    every = ("kafka-configs", "--describe", "--all", "--entity-type")
    topics = configs_of(printed(*every, "topics", "--entity-name", topic))
    assert topics["cleanup.policy"] == "delete"
    assert topics["max.message.bytes"] == "1048588"
    assert {"min.insync.replicas", "remote.storage.enable", "segment.bytes"} <= topics.keys()
    brokers = configs_of(printed(*every, "brokers", "--entity-name", "1"))
    assert brokers["node.id"] == "1"
    assert len(brokers) > 150
    groups = configs_of(printed(*every, "groups", "--entity-name", name))
    assert groups["share.isolation.level"] == "read_uncommitted"
    assert groups["consumer.heartbeat.interval.ms"] == "5000"
    for kind in ("users", "ips"):
        ran = run(*every, kind, "--entity-name", "10.0.0.1")
        assert (ran.status, ran.stdout) == (0, ""), ran
    nobody = run(*every, "topics", "--entity-name", f"not-{name}")
    assert "UnknownTopicOrPartitionException" in nobody.stderr
