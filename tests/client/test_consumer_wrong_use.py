"""What a consumer says to a program that uses it wrongly: a sentence, at once, at the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sharegroup import Consumer, ShareConsumer, TopicPartition
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import ConfigError, RequestTimedOut, UnknownTopicOrPartition
from tests.client.test_consumer import consumer, filled
from tests.client.working import run
from tests.servers.running import RunningServer


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"auto_offset_reset": "begin"}, "auto_offset_reset is 'begin'"),
        ({"group_protocol": "next"}, "write one of consumer, classic"),
        ({"group_id": ""}, "name the consumer group"),
        ({"group_id": None}, "name the consumer group"),
        ({"group_instance_id": ""}, "group_instance_id is empty"),
        ({"max_poll_records": 0}, "max_poll_records is 0"),
        ({"fetch_min_bytes": -1}, "fetch_min_bytes is -1"),
        ({"fetch_max_wait_ms": -1}, "fetch_max_wait_ms is -1"),
        ({"fetch_max_bytes": 0}, "fetch_max_bytes is 0"),
        ({"max_partition_fetch_bytes": 0}, "max_partition_fetch_bytes is 0"),
        ({"value_deserializer": "json"}, "value_deserializer is 'json': give a function"),
        ({"partition_assignment_strategy": "range"}, r"write \['range'\]"),
        ({"partition_assignment_strategy": ["fair"]}, "write one of range"),
        (
            {"group_protocol": "classic", "heartbeat_interval_ms": 5, "session_timeout_ms": 5},
            "must be less than session_timeout_ms",
        ),
    ],
)
def test_a_setting_that_cannot_be(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Consumer("orders", **{"group_id": "billing"} | settings)


@pytest.mark.parametrize("topic", [["orders", "returns"], b"orders", None])
@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_a_topic_that_is_none(kind: Any, topic: object) -> None:
    with pytest.raises(ConfigError, match="is no topic: write the names one after the other"):
        kind(topic, group_id="billing")


def test_a_subscription_that_is_none() -> None:
    async def scenario() -> None:
        names: Any = ["orders", "returns"]
        with pytest.raises(ConfigError, match="or \\*names"):
            Consumer(group_id="billing").subscribe(names)
        with pytest.raises(ConfigError, match="name of a topic is empty"):
            ShareConsumer(group_id="billing").subscribe("")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda one: one.assign("orders"), TypeError, r"write \(topic, number\)"),
        (lambda one: one.assign(("orders", 0)), TypeError, "'orders' is no partition"),
        (lambda one: one.assign([("orders", -1)]), ValueError, "-1 of orders is negative"),
        (lambda one: one.seek("orders", 0, -1), ValueError, "seek_to_end"),
        (lambda one: one.seek("orders", 0, 1), IllegalState, "orders-0 is not assigned"),
        (lambda one: one.current_lag("orders", 0), IllegalState, "orders-0 is not assigned"),
    ],
)
def test_a_partition_that_is_none(
    call: Callable[[Any], object], kind: type[Exception], says: str
) -> None:
    async def scenario() -> None:
        with pytest.raises(kind, match=says):
            call(Consumer(group_id="billing"))

    asyncio.run(scenario())


def test_offsets_that_are_none(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker) as one:
            one.assign([(topic, 0)])
            wrong: Any = [(topic, 0)]
            with pytest.raises(TypeError, match="are no offsets"):
                await one.commit(wrong)
            with pytest.raises(ValueError, match="is -5"):
                await one.commit({TopicPartition(topic, 0): -5})
            with pytest.raises(ValueError, match="the time -7 is negative"):
                await one.offsets_for_times({TopicPartition(topic, 0): -7})
            with pytest.raises(UnknownTopicOrPartition, match=f"{topic} has no partition 7"):
                await one.end_offsets((topic, 7))

    run(scenario)


def test_a_position_that_cannot_be_found(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=1)
        async with consumer(group_broker, request_timeout_ms=1_000) as one:
            one.assign([(topic, 7)])
            with pytest.raises(RequestTimedOut, match=f"the position of {topic}-7"):
                await one.position(topic, 7)

    run(scenario)


def test_offsets_of_all_that_is_assigned(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await filled(group_broker, partitions=2, each=3)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with consumer(group_broker) as one:
            one.assign([first, second])
            assert await one.end_offsets() == {first: 3, second: 3}
            assert await one.beginning_offsets() == {first: 0, second: 0}

    run(scenario)
