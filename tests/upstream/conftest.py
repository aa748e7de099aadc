"""A cluster that has the records, and a broker in front of it.

`make test-older-kafka` sets SHAREGROUP_CLUSTERS: versions of Apache Kafka to take in place of the
newest and of our broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.jars import older_kafka
from tests.apache_kafka.zookeeper import ZookeeperKafka
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

FIRST_WITHOUT_ZOOKEEPER = (3, 3)


def clusters() -> list[Any]:
    """What makes each cluster of the tests."""
    versions = os.environ.get("SHAREGROUP_CLUSTERS", "").split()
    if versions:
        return [pytest.param(older(one), id=one, marks=pytest.mark.kafka) for one in versions]
    return [
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ]


NEEDS = {
    "test_a_consumer_group_is_one_of_the_cluster[consumer]": (4, 0),
    "test_transactions_are_shown": (3, 0),
    "test_an_offset_has_the_time_of_its_record": (3, 0),
    "test_what_belongs_to_the_brokers_is_nobodys": (3, 0),
}
"""What an earlier version of Apache Kafka does not have."""


ONCE = {
    "test_two_brokers_with_one_id_or_one_port_are_refused",
    "test_a_broker_is_drained_and_resumed",
    "test_our_consumer_does_not_wait_for_a_broker_that_stands_still",
    "test_an_open_admin_client_goes_on_at_the_next_broker",
    "test_what_one_broker_is_told_the_others_know",
    "test_a_session_of_many_partitions_may_be_opened",
}
"""What is the same in front of any cluster, and takes long: in front of the first one alone."""

NOT_ON_OURS = {
    "test_a_broker_that_was_paused_gives_out_nothing",
    "test_several_brokers_share_the_work",
    "test_what_comes_into_a_finished_partition_is_seen_by_the_next_broker",
}
"""In front of a broker of ours the simulator plays it (tests/sim/test_fleet.py)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a version does not have, and what was tried before."""
    items[:] = [one for one in items if _is_tried(*one.name.rstrip("]").split("[", 1))]
    for item in items:
        for version in os.environ.get("SHAREGROUP_CLUSTERS", "").split():
            name = item.name.replace(f"[{version}-", "[").replace(f"[{version}]", "")
            if name != item.name and number_of(version) < NEEDS.get(name, (0, 0)):
                item.add_marker(pytest.mark.skip(reason=f"Kafka {version} does not have it"))


def _is_tried(name: str, cluster: str = "") -> bool:
    if name in ONCE:
        return cluster == clusters()[0].id
    return name not in NOT_ON_OURS or cluster != "sharegroup"


def number_of(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in version.split(".")[:2])


def older(version: str) -> Callable[..., RunningServer]:
    """Makes an earlier Apache Kafka."""
    kind = KafkaBroker if number_of(version) >= FIRST_WITHOUT_ZOOKEEPER else ZookeeperKafka
    return partial(kind, jars=older_kafka(version))


@pytest.fixture(scope="package", params=clusters())
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("cluster")
    with request.param(folder, "group.initial.rebalance.delay.ms=0") as running:
        yield running


@pytest.fixture(scope="module")
def node(
    cluster: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharegroupServer]:
    with SharegroupServer(
        tmp_path_factory.mktemp("node"), arguments=["--upstream", cluster.bootstrap]
    ) as running:
        yield running
