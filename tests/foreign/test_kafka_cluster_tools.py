"""kafka-cluster, kafka-features and kafka-configs against our broker and against Apache Kafka: they
print the same, but for what is explained."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.foreign.tool_shell import ToolShell
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

COMMANDS: Final = """
cluster cluster-id
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
cluster unregister --id 7
features describe
features upgrade --feature group.version=1
features upgrade --feature group.version=1 --feature transaction.version=2 --dry-run
features upgrade --feature group.version=9
features upgrade --feature no.such=1
features upgrade --feature group.version=x
features downgrade --feature group.version=1 --unsafe
features downgrade --feature group.version=9
features disable --feature no.such --dry-run
configs --describe --all --entity-type topics --entity-name jobs
configs --describe --all --entity-type topics
configs --describe --all --entity-type groups --entity-name workers
configs --describe --all --entity-type groups
configs --describe --all --entity-type brokers --entity-default
configs --describe --all --entity-type client-metrics --entity-name some
configs --describe --all --entity-type users --entity-default
configs --describe --all --entity-type clients --entity-name some
configs --describe --all --entity-type ips --entity-name 10.0.0.1
configs --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=x
configs --alter --entity-type brokers --entity-name 1 --add-config log.cleanup.policy=[compact,]
configs --alter --entity-type topics --entity-name jobs --add-config cleanup.policy=[compact,]
configs --alter --entity-type topics --entity-name jobs --add-config no.such=1
configs --alter --entity-type topics --entity-name jobs --delete-config segment.ms
configs --alter --entity-type brokers --entity-name 1 --delete-config no.such
"""

EXPLAINED: Final = {
    "cluster cluster-id": r"Cluster ID: .*",
    # Levels that are ours, and of what is not here: replicas, KRaft, streams.
    "features describe": r"Feature: (?!group|transaction).*",
    # flush.policy, deduplication, range fetches and retention that knows the queue are ours;
    # min.insync.replicas: see config_differences.csv.
    "configs --describe --all --entity-type topics": (
        r" *(flush\.policy|deduplication\.window\.ms|(accept|reserve\.message\.value)\.range\.fetch"
        r"|share\.retention\.[a-z.]+"
        r"|min\.insync\.replicas)=.*"
    ),
    # No streams groups; order per key, wide windows and pauses are ours.
    "configs --describe --all --entity-type groups": (
        r" *(streams|share\.(ordering|fairness|priority|rate|partition\.wide|paused|release"
        r"|record\.(expiry|schedule)))[.=].*"
    ),
    "configs --describe --all --entity-type brokers": r" *min\.insync\.replicas=.*",
}
"""How a command begins → the lines of its output that may differ."""

Printed: TypeAlias = dict[str, list[str]]


def run_all(shell: ToolShell, server: RunningServer) -> Printed:
    """What each command prints, without what differs by nature: ports, clients, stack traces."""
    shell.run("kafka-topics", server.bootstrap, "--create", "--topic", "jobs")
    printed: Printed = {}
    for command in COMMANDS.strip().splitlines():
        tool, *words = command.split()
        ran = shell.run(f"kafka-{tool}", server.bootstrap, *words)
        text = f"status {ran.status}\n{ran.stdout}{ran.stderr}"
        port = server.bootstrap.rpartition(":")[2]
        text = re.sub(r"adminclient-\d+", "adminclient", text.replace(port, "PORT"))
        text = re.sub(r"Epoch: \d+", "Epoch", text)
        lines = [line.rstrip() for line in text.splitlines() if not line.startswith("\t")]
        printed[command] = [line for line in lines if not line.startswith("Caused by")]
    return printed


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Printed, Printed]:
    """What Apache Kafka's tools print of it, and of ours."""
    with ToolShell(tmp_path_factory.mktemp("classes")) as shell:
        with KafkaBroker(tmp_path_factory.mktemp("kafka")) as kafka:
            kafkas = run_all(shell, kafka)
        with SharegroupServer(tmp_path_factory.mktemp("ours")) as ours:
            return kafkas, run_all(shell, ours)


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_a_tool_prints_the_same(both: tuple[Printed, Printed], command: str) -> None:
    may_differ = [lines for begin, lines in EXPLAINED.items() if command.startswith(begin)]
    kafkas, ours = (
        [line for line in printed[command] if not any(re.fullmatch(p, line) for p in may_differ)]
        for printed in both
    )
    assert ours == kafkas
