"""librdkafka's share consumer, unchanged, in a group that an operator pauses, and whose records an
operator takes from it."""

from __future__ import annotations

import pytest

from sharegroup import sync
from sharegroup.model.ids import TopicPartition
from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def test_a_paused_group_gets_nothing_and_goes_on_when_it_is_resumed(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_auto_offset_reset="earliest")
    produce(broker.bootstrap, topic, [b"first"])
    with (
        share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer,
        sync.Admin(broker.bootstrap) as ours,
    ):
        (held,) = receive(consumer)
        ours.pause_group(group)
        consumer.acknowledge(held)
        assert set(consumer.commit_sync(20).values()) == {None}, "what is held can be answered"
        produce(broker.bootstrap, topic, [b"second"])
        assert not list(consumer.poll(1.0)), "an empty answer, and no error"
        ours.resume_group(group)
        (second,) = receive(consumer)
        assert second.value() == b"second"
        consumer.acknowledge(second)
        assert set(consumer.commit_sync(20).values()) == {None}


def test_its_other_answers_hold_when_a_record_was_taken_from_it(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_auto_offset_reset="earliest")
    produce(broker.bootstrap, topic, [b"0", b"1", b"2"])
    at = TopicPartition(topic, 0)
    with (
        share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer,
        sync.Admin(broker.bootstrap) as ours,
    ):
        held = []
        while len(held) < 3:
            held += receive(consumer)
        assert ours.archive_records(group, at, 1).held == 1
        for message in held:
            consumer.acknowledge(message)
        (error,) = consumer.commit_sync(20).values()
        assert error is not None
        assert "INVALID_RECORD_STATE" in str(error) or "record state" in str(error).lower()
        assert ours.list_share_group_offsets(group)[at].start_offset == 3
