"""A consumer's metrics and lag, against real brokers."""

from __future__ import annotations

import math

import pytest

from sharegroup import TopicPartition
from sharegroup.client.group.metrics import COORDINATOR_GROUP, FETCH_GROUP, POLL_GROUP
from tests.client.test_consumer import Protocol, both, consumer, filled
from tests.client.working import eventually, run
from tests.servers.running import RunningServer


@both
def test_lag_and_metrics(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1, each=10)
        async with consumer(
            group_broker,
            topic,
            protocol=protocol,
            max_poll_records=4,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
        ) as one:
            assert math.isnan(one.metrics()[FETCH_GROUP, "records-lag-max"])
            while not await one.poll():
                assert one.metrics()[FETCH_GROUP, "records-consumed-total"] == 0
            assert one.current_lag(topic, 0) == 6
            await one.commit()
            found = one.metrics()
            assert found[FETCH_GROUP, "records-lag-max"] == 6
            assert found[FETCH_GROUP, "records-lag"] == 6
            assert found[FETCH_GROUP, "records-consumed-total"] == 4
            assert found[FETCH_GROUP, "bytes-consumed-total"] > 10
            assert found[FETCH_GROUP, "fetch-total"] >= 1
            assert found[FETCH_GROUP, "fetch-latency-max"] > 0
            assert found[COORDINATOR_GROUP, "rebalance-total"] >= 1
            assert found[COORDINATOR_GROUP, "assigned-partitions"] == 1
            assert found[COORDINATOR_GROUP, "commit-total"] == 1
            assert found[COORDINATOR_GROUP, "commit-latency-avg"] > 0
            assert found[COORDINATOR_GROUP, "commit-error-total"] == 0
            assert 0 <= found[POLL_GROUP, "poll-idle-ratio-avg"] <= 1

            async def later() -> tuple[float, int | None]:
                await one.poll(50)
                beats = one.metrics()[COORDINATOR_GROUP, "heartbeat-total"]
                return beats, one.current_lag(topic, 0)

            await eventually(later, lambda found: found[0] >= 1 and found[1] == 0)

    run(scenario)


def test_a_loop_counts_each_record_once(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1, each=10)
        async with consumer(group_broker, topic, max_poll_records=4) as one:
            async for record in one:
                lag = one.current_lag(topic, 0)
                assert lag == 9 - record.offset
                if not lag:
                    break
            assert one.metrics()[FETCH_GROUP, "records-consumed-total"] == 10

    run(scenario)


@pytest.mark.parametrize("protocol", ["consumer"])
def test_a_refused_commit_is_counted(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, topic, protocol=protocol) as one:
            with pytest.raises(Exception, match="no member of its group"):
                await one.commit({TopicPartition(topic, 0): 1})
            assert one.metrics()[COORDINATOR_GROUP, "commit-error-total"] == 1

    run(scenario)
