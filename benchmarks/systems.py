"""The servers that are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.apache_kafka.broker import KAFKAS_OWN, KafkaBroker
from tests.apache_kafka.in_front import InFrontOfKafka
from tests.apache_kafka.jars import VERSION
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

OURS = "ours, durable"
OURS_SYSTEM_FLUSH = "ours, flush.policy=system"
PEER = f"Apache Kafka {VERSION}"
EARLIER_PEERS = ("Apache Kafka 4.3.1",)
"""Their samples in docs/benchmarks.json are used for rows that were not measured on PEER yet."""

SHORT_LOCKS = "group.share.min.record.lock.duration.ms=1000"  # a group may then ask for them
MANY_LOCKS = "group.share.max.partition.max.record.locks=10000"  # the most that Kafka takes
AT_ONCE = "group.initial.rebalance.delay.ms=0"  # as tests/apache_kafka sets it for Kafka


def ours_durable(folder: Path) -> RunningServer:
    """Our broker with the default flush policy: it answers after the fsync."""
    return SharegroupServer(folder, SHORT_LOCKS, AT_ONCE)


def ours_system_flush(folder: Path) -> RunningServer:
    """Our broker with flushing left to the system, as Apache Kafka does by default."""
    return SharegroupServer(folder, SHORT_LOCKS, AT_ONCE, "flush.policy=system")


def apache_kafka(folder: Path) -> RunningServer:
    """Apache Kafka: one KRaft node with the heap and JVM options of Kafka's own start script."""
    return KafkaBroker(folder, SHORT_LOCKS, MANY_LOCKS, jvm=KAFKAS_OWN)


def in_front(nodes: int) -> Callable[[Path], RunningServer]:
    """So many of our brokers in front of Apache Kafka."""
    return lambda folder: InFrontOfKafka(folder, SHORT_LOCKS, nodes=nodes)


SYSTEMS: dict[str, Callable[[Path], RunningServer]] = {
    OURS: ours_durable,
    OURS_SYSTEM_FLUSH: ours_system_flush,
    PEER: apache_kafka,
}
IN_FRONT: dict[str, Callable[[Path], RunningServer]] = {
    f"{nodes} of ours in front of {PEER}": in_front(nodes) for nodes in (1, 3)
}
"""Measured where they are asked for by name: the numbers are in docs/cluster.md."""
