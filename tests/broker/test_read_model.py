"""The read model shows what is there, and changes nothing by showing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.coordination.group_registry import GroupType
from sharegroup.broker.read_model.share_groups import WindowView
from sharegroup.broker.server import Broker
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.archived import ArchivedRange, Reason
from sharegroup.share.record_state import RecordState
from tests.broker.consumer_wire import EAGER, join
from tests.broker.consumer_wire import GROUP as READERS
from tests.broker.group_wire import World, simulate
from tests.broker.running import run
from tests.broker.share_wire import ACCEPT, GROUP, REJECT, RELEASE, TOPIC, started, until


async def some_answers(broker: Broker, port: int) -> SharePartitionKey:
    """Ten records: 1 is accepted, 2 rejected, 3 released, the others are held."""
    session = await started(broker, port, partitions=1, records=10)
    await session.fetch(0, max_records=10)
    key = SharePartitionKey(GROUP, session.topic_id, 0)
    answer = await session.acknowledge({0: [(1, 3, [ACCEPT, REJECT, RELEASE])]})
    assert answer.error_code == 0, answer
    return key


def test_a_window_in_memory_has_states_and_locks(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        views = broker.parts.views.share_groups
        key = await some_answers(broker, port)
        window = await views.window(key)
        assert window == WindowView(
            start_offset=0,
            end_offset=10,
            finished=2,
            in_flight=7,
            available=1,
            acknowledged=1,
            archived=1,
        )
        assert (window.begun, window.lag(10), views.in_flight(key)) == (True, 8, 7)
        records = await views.records(key, 0, 3)
        assert [(r.first, r.last, r.state) for r in records.ranges] == [
            (0, 0, RecordState.ACQUIRED),
            (1, 1, RecordState.ACKNOWLEDGED),
            (2, 2, RecordState.ARCHIVED),
        ]
        assert (records.ranges[0].member_id, records.ranges[1].member_id) == ("m-1", None)
        assert 0 < records.ranges[0].lock_ms <= 30_000
        assert records.archived == [ArchivedRange(2, 2, Reason.REJECTED, 1)]
        (led,) = views.led()
        assert (led.key, led.topic, led.window.acquired) == (key, TOPIC, 7)

    run(tmp_path, scenario)


def test_durable_state_is_shown_without_loading_it(tmp_path: Path) -> None:
    keys = []

    async def before(broker: Broker, port: int) -> None:
        keys.append(await some_answers(broker, port))

    async def after(broker: Broker, port: int) -> None:
        views, (key,) = broker.parts.views.share_groups, keys
        window = await views.window(key)
        assert window == WindowView(start_offset=0, end_offset=0, finished=2)
        assert window.lag(10) == 8
        records = await views.records(key, 0, 100)
        assert {r.state for r in records.ranges} >= {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}
        assert all((r.member_id, r.lock_ms) == (None, -1) for r in records.ranges)
        assert list(views.led()) == []

    run(tmp_path, before)
    run(tmp_path, after)


def test_groups_show_their_members_and_partitions(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        views = broker.parts.views.share_groups
        session = await started(broker, port, partitions=2)
        assert views.groups() == [(GROUP, "Stable", 1)]
        group = views.group(GROUP)
        named = ((session.topic_id, TOPIC, (0, 1)),)
        assert (group.state, group.partitions, views.partitions(GROUP)) == ("Stable", named, named)
        (member,) = group.members
        assert (member.member_id, member.subscribed_topics) == ("starter", (TOPIC,))
        assert member.assignment == named
        topic = broker.parts.topics.find(TOPIC)
        assert topic is not None
        await broker.parts.topics.delete(topic)
        assert views.group(GROUP).partitions == ()
        with pytest.raises(GroupIdNotFound):
            views.group("nobody")
        assert views.partitions("nobody") == ()

    run(tmp_path, scenario)


def test_connections_show_what_they_hold(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connections = broker.parts.connections
        session = await started(broker, port, partitions=1)
        await until(lambda: len(connections) == 1)  # the others are closed
        (view,) = connections.views()
        assert view.open_requests == 0
        assert (view.host, view.listener, view.principal) == (
            "127.0.0.1",
            "PLAINTEXT",
            "User:ANONYMOUS",
        )
        assert (view.request_bytes, view.unread_bytes) == (0, 0)
        assert (connections.request_bytes, connections.unread_bytes) == (0, 0)
        session.connection.close()

    run(tmp_path, scenario)


def test_other_groups_and_transactions_are_shown_too() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 3)
        joined = await join(world, "a")
        views = world.broker.parts.views
        assert views.groups.all() == [(READERS, GroupType.CONSUMER, "Stable", "consumer")]
        assert views.groups.consumer_group_states() == {"Stable": 1}
        group = views.groups.consumer_group(READERS)
        (member,) = group.members
        assert (member.member_id, member.epoch) == ("a", joined.member_epoch)
        assert member.assignment == member.target == ((foo, "foo", (0, 1, 2), {}),)
        assert group.topics() == {"foo"}
        with pytest.raises(GroupIdNotFound):
            views.groups.classic_group(READERS)
        topic = world.broker.parts.topics.find("foo")
        assert topic is not None
        assert topic in views.topics.all()
        assert {key.partition for key in views.topics.folder().sizes if key.topic == "foo"} == {
            0,
            1,
            2,
        }
        await world.broker.parts.topics.delete(topic)
        assert views.groups.consumer_group(READERS).topics() == set()
        assert (views.transactions.all(), views.quotas()) == ([], {})

    simulate(scenario, EAGER)
