"""librdkafka's consumers of both protocols in one group: a rolling change and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer

from tests.foreign.test_consumer_groups_kip848 import OPTIONS, consumer, numbers, receive, until
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

PARTITIONS = 4
VALUES = [f"value-{at}".encode() for at in range(12)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose members send heartbeats often, so that partitions change hands soon."""
    with SharegroupServer(tmp_path_factory.mktemp("migration"), *OPTIONS) as server:
        yield server


@pytest.mark.process
@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_rolling_change_and_back(
    broker: RunningServer, admin: Admin, name: str, group: str, strategy: str
) -> None:
    admin.create_topic(name, partitions=PARTITIONS)

    def member(stack: ExitStack, protocol: str) -> Consumer:
        if protocol == "consumer":
            return stack.enter_context(consumer(broker, group, name))
        return stack.enter_context(
            consumer(
                *(broker, group, name),
                group_protocol="classic",
                partition_assignment_strategy=strategy,
                heartbeat_interval_ms="100",
            )
        )

    def share(*members: Consumer) -> None:
        """Wait until every partition has one owner, and every member has some."""

        def shared() -> bool:
            held = [where for one in members for where in numbers(one)]
            return len(held) == len(set(held)) == PARTITIONS and all(map(numbers, members))

        until(shared, *members)

    # One classic member at first: the second generation of librdkafka's cooperative-sticky has
    # user data in its assignments, and such a group Kafka does not upgrade either.
    order = ["classic", "consumer", "consumer", "classic", "classic"]
    with ExitStack() as last:
        stacks = [ExitStack() for _ in order]
        last.callback(lambda: [stack.close() for stack in stacks])
        members: list[Consumer] = []
        for at, protocol in enumerate(order):
            members.append(member(stacks[at], protocol))
            share(*members[-3:])
            if at >= 2:
                stacks[at - 2].close()
                share(*members[-2:])


@pytest.mark.process
def test_committed_offsets_go_along(broker: RunningServer, topic: str, group: str) -> None:
    """Each member commits one record, and the next one, which joins before it leaves, goes on."""
    produce(broker.bootstrap, topic, VALUES)
    stack = ExitStack()
    for value, protocol in zip(VALUES, ["classic", "consumer"] * 3, strict=False):
        with stack:
            stack = ExitStack()
            made = stack.enter_context(consumer(broker, group, topic, group_protocol=protocol))
        message = receive(made)
        made.commit(message, asynchronous=False)
        assert message.value() == value
    stack.close()
