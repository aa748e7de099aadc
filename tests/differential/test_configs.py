"""Configs of a topic, a broker and a group as our broker and Apache Kafka tell them, and what both
say to odd values: the same, but for the rows of config_differences.csv.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.configs.foreign import why_meaningless
from tests.apache_kafka.broker import KafkaBroker
from tests.differential.configs_told import Facts, differences, taken, told
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

OPTIONS = (
    "node.id=1",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "share.coordinator.state.topic.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
    "log.retention.hours=100",
    "log.roll.hours=50",
    "message.max.bytes=2000000",
    "group.share.session.timeout.ms=46000",
)


def ask(server: RunningServer) -> tuple[Facts, list[str]]:
    """What a server tells, and the names of its topic configs."""
    admin = Admin(server.bootstrap)
    admin.create_topic("t", retention_ms="1000", max_message_bytes="7")
    admin.set_group("g", share_session_timeout_ms="50000")
    port = int(server.bootstrap.rpartition(":")[2])

    async def all_of_it() -> Facts:
        facts = await told(port)
        for whose in ("topic", "group"):
            names = sorted({name for kind, name, _ in facts if kind == whose})
            facts |= await taken(port, whose, names)
        return facts

    facts = asyncio.run(all_of_it())
    return facts, sorted({name for kind, name, _ in facts if kind == "topic"})


def test_configs_are_told_as_by_kafka(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "ours", *OPTIONS) as ours:
        mine, names = ask(ours)
    with KafkaBroker(tmp_path / "kafka", *OPTIONS) as kafka:
        theirs, kafkas_names = ask(kafka)
    assert set(kafkas_names) <= set(names), "no topic config of Kafka is unknown here"
    rows = differences()
    used = set()
    unexplained = []
    shown = {fact[:2] for fact in mine} & {fact[:2] for fact in theirs}
    for fact in sorted(mine.keys() | theirs.keys()):
        kafka_says, ours_say = theirs.get(fact, "-"), mine.get(fact, "-")
        if fact[2] != "shown" and fact[:2] not in shown:
            continue
        if kafka_says == ours_say:
            continue
        if fact[0] == "broker" and ours_say == "-":
            assert why_meaningless(fact[1]), f"Kafka's {fact[1]} is unknown here"
        row = next((row for row in rows if row.explains(fact, kafka_says, ours_say)), None)
        if row is None:
            unexplained.append(f"{' '.join(fact)}: Kafka {kafka_says!r}, ours {ours_say!r}")
        used.add(row)
    assert not unexplained, "\n".join(unexplained)
    assert set(rows) <= used, f"rows that explain nothing: {set(rows) - used}"
