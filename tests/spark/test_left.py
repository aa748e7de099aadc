"""What a run over what is there now is told to be left, while records come after its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharegroup.client import Record
from sharegroup.client.network.cluster import Cluster
from sharegroup.spark.options.stream import parse_options
from sharegroup.spark.source.group_view import GroupQuestions, Offsets
from sharegroup.spark.source.subscription import StreamTopics
from sharegroup.sync import ShareConsumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.spark.conftest import source_options
from tests.spark.readers import until

pytestmark = pytest.mark.process


@pytest.fixture
def one(server: RunningServer, name: str) -> Iterator[ShareConsumer]:
    """A member of a group that begins at the first record; locks outlast the test."""
    Admin(server.bootstrap).create_topic(name)
    Admin(server.bootstrap).set_group(
        name, share_auto_offset_reset="earliest", share_record_lock_duration_ms="3600000"
    )
    with member(server, name) as consumer:
        yield consumer


def member(server: RunningServer, name: str) -> ShareConsumer:
    return ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=server.bootstrap,
        acknowledgement_mode="explicit",
    )


def take(consumer: ShareConsumer, *, accept: bool) -> None:
    """Get the record that is available, and accept it or keep it."""
    taken: list[Record] = []

    def came() -> bool:
        taken.extend(consumer.poll(timeout_ms=100))
        return bool(taken)

    until(came)
    if accept:
        consumer.accept(taken[0])
        assert set(consumer.commit().values()) == {None}


def targets(server: RunningServer, name: str) -> Offsets:
    return asyncio.run(_asked(server, name, None))


def left(server: RunningServer, name: str, ends: Offsets) -> list[int]:
    """How many records before the ends are left, by partition."""
    return list(asyncio.run(_asked(server, name, ends)).values())


async def _asked(server: RunningServer, name: str, ends: Offsets | None) -> Offsets:
    options = parse_options(source_options(server, name))
    async with Cluster(server.bootstrap) as cluster:
        group, topics = GroupQuestions(cluster, options), StreamTopics(cluster, options)
        await topics.find()
        if ends is None:
            return await group.end_offsets(topics.topics)
        found = await group.left(topics.topics, ends, {})
        return {key: one.records for key, one in found.items()}


def test_a_record_of_another_member_is_left_though_a_newer_one_is_done(
    server: RunningServer, name: str, one: ShareConsumer
) -> None:
    produce(server.bootstrap, name, [b"old"])
    take(one, accept=False)
    ends = targets(server, name)
    produce(server.bootstrap, name, [b"new"])
    with member(server, name) as other:
        take(other, accept=True)
        assert left(server, name, ends) == [1]


def test_nothing_is_left_when_a_newer_record_waits(
    server: RunningServer, name: str, one: ShareConsumer
) -> None:
    """Also on Apache Kafka, which has not stored the new start offset yet."""
    produce(server.bootstrap, name, [b"old"])
    ends = targets(server, name)
    assert left(server, name, ends) == [1]
    take(one, accept=True)
    produce(server.bootstrap, name, [b"new"])
    assert left(server, name, ends) == []
