"""Positions that jump, in a partition that members of a consumer group share by key (KIP-X)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sharegroup import Admin, Consumer
from sharegroup.client import ConsumerRecord
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.client.test_shared_partitions import Member, committed, shared_topic, values, write
from tests.client.working import fresh, run, until

COUNT = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with local_broker(
        configs={
            "group.consumer.min.assignment.interval.ms": 0,
            "group.consumer.assignment.interval.ms": 0,
        }
    ) as broker:
        yield broker


def consumer_of(broker: LocalBroker, group: str, *topics: str, **settings: Any) -> Consumer:
    """A member that commits nothing by itself."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    return Consumer(
        *topics,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        key_ranges=True,
        fetch_max_wait_ms=50,
        **defaults | settings,
    )


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


@pytest.mark.parametrize("policy", ["earliest", "by_duration:PT1H"])
def test_what_is_committed_does_not_come_again_where_the_log_has_lost_what_is_before_it(
    broker: LocalBroker, policy: str
) -> None:
    """The log's start passes the group's committed offset; ranges behind both are committed."""

    async def scenario() -> None:
        topic, group = shared_topic(broker), fresh("group")
        await write(broker, topic, COUNT)
        async with consumer_of(broker, group, topic) as first:
            records = await read(first, COUNT)
            await first.commit([*records[50:55], *records[70:80]])
        async with Admin(broker.bootstrap) as admin:
            await admin.delete_records({TopicPartition(topic, 0): 60})
        members = [Member(broker, topic, group, auto_offset_reset=policy) for _ in range(3)]
        await until(lambda: set(values(members)) >= {*range(60, 70), *range(80, COUNT)})
        for member in members:
            await member.stop()
        assert sorted(set(values(members))) == [*range(60, 70), *range(80, COUNT)]
        if policy == "earliest":
            assert await committed(broker, topic, group) == COUNT

    run(scenario)
