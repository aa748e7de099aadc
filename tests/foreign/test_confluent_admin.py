"""librdkafka's admin client: consumer groups with members, offsets, records, topics, the cluster.

Topics and configs it makes in every test (tests/servers/admin.py); it alters, lists and deletes the
offsets of a group without members in test_committed_offsets.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from tests.foreign.test_consumer_groups_classic import consumer, partitions, poll_until
from tests.servers.admin import ADMIN_SECONDS, Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose groups do not wait for further members."""
    options = ("group.initial.rebalance.delay.ms=0",)
    with SharegroupServer(tmp_path_factory.mktemp("broker"), *options) as server:
        yield server


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A fresh topic with two records in each of its partitions."""
    admin.create_topic(name, PARTITIONS)
    produce(admin.bootstrap, name, [b"x"] * 2 * PARTITIONS)
    return name


def offsets(admin: Admin, group: str) -> dict[int, int]:
    """The committed offset of each partition."""
    (done,) = admin.client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)]
    ).values()
    found = done.result(ADMIN_SECONDS).topic_partitions
    return {place.partition: place.offset for place in found}


def alter(admin: Admin, group: str, topic: str, offset: int) -> None:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    (done,) = admin.client.alter_consumer_group_offsets([wanted]).values()
    (place,) = done.result(ADMIN_SECONDS).topic_partitions
    if place.error is not None:
        raise KafkaException(place.error)


def delete(admin: Admin, group: str) -> None:
    (done,) = admin.client.delete_consumer_groups([group], request_timeout=ADMIN_SECONDS).values()
    done.result(ADMIN_SECONDS)


def test_a_group_at_work_is_shown_and_not_changed(
    broker: RunningServer, admin: Admin, topic: str, name: str
) -> None:
    with closing(consumer(broker.bootstrap, name, topic, client_id="reader")) as member:
        got: list[bytes] = []
        poll_until(lambda: len(got) == 2 * PARTITIONS, member, got=got)
        member.commit(asynchronous=False)
        assert partitions(member) == {0, 1, 2}

        described = admin.client.describe_consumer_groups([name])[name].result(ADMIN_SECONDS)
        assert described.state == ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        assert described.coordinator.id == 1
        (shown,) = described.members
        assert (shown.member_id, shown.client_id) == (member.memberid(), "reader")
        owned = {place.partition for place in shown.assignment.topic_partitions}
        assert owned == {0, 1, 2}
        stable = {ConsumerGroupState.STABLE}
        listed = admin.client.list_consumer_groups(states=stable).result(ADMIN_SECONDS)
        assert name in {group.group_id for group in listed.valid}
        assert listed.errors == []
        assert offsets(admin, name) == {0: 2, 1: 2, 2: 2}

        with pytest.raises(KafkaException) as refused:
            delete(admin, name)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        with pytest.raises(KafkaException) as refused:
            alter(admin, name, topic, 0)
        assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


def test_a_group_goes_on_where_it_was_moved_to_until_it_is_deleted(
    broker: RunningServer, admin: Admin, topic: str, name: str
) -> None:
    alter(admin, name, topic, 1)
    seen: list[Message] = []
    with closing(consumer(broker.bootstrap, name, topic)) as member:
        while len(seen) < 2 * PARTITIONS - 1:
            message = member.poll(ADMIN_SECONDS)
            assert message is not None
            assert message.error() is None
            seen.append(message)
        places = {(message.partition(), message.offset()) for message in seen}
        assert places == {(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)}
    delete(admin, name)
    described = admin.client.describe_consumer_groups([name])[name].result(ADMIN_SECONDS)
    assert described.state == ConsumerGroupState.DEAD
    with pytest.raises(KafkaException) as unknown:
        delete(admin, name)
    assert unknown.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_records_are_deleted_and_offsets_listed(admin: Admin, topic: str) -> None:
    first = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> int:
        (done,) = admin.client.list_offsets({first: spec}).values()
        offset: int = done.result(ADMIN_SECONDS).offset
        return offset

    (done,) = admin.client.delete_records([TopicPartition(topic, 0, 1)]).values()
    assert done.result(ADMIN_SECONDS).low_watermark == 1
    assert (listed(OffsetSpec.earliest()), listed(OffsetSpec.latest())) == (1, 2)
    assert listed(OffsetSpec.max_timestamp()) == 1
    assert listed(OffsetSpec.for_timestamp(1)) == 1


def test_topics_and_cluster_are_described(broker: RunningServer, admin: Admin, topic: str) -> None:
    (done,) = admin.client.describe_topics(TopicCollection([topic])).values()
    described = done.result(ADMIN_SECONDS)
    assert [part.leader.id for part in described.partitions] == [1] * PARTITIONS
    assert not described.is_internal
    cluster = admin.client.describe_cluster().result(ADMIN_SECONDS)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap]
    assert cluster.controller.id == 1
