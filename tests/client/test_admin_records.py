"""The states of records through the admin client, of our broker and of Apache Kafka."""

from __future__ import annotations

from sharegroup.client import AckType, Admin
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState
from tests.client.test_share_consumer import consumer_of
from tests.client.working import eventually, fresh, poll_until, run, topic_with
from tests.servers.running import RunningServer


def test_both_brokers_report_finished_records_and_ours_reports_locks(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 6)
        where = TopicPartition(topic, 0)
        settings = {"acknowledgement_mode": "explicit", "max_poll_records": 6}
        async with (
            Admin(broker.bootstrap) as admin,
            consumer_of(broker, topic, group, **settings) as consumer,
        ):
            records = await poll_until(consumer, 6)
            for record, kind in zip(
                records[1:4], (AckType.ACCEPT, AckType.REJECT, AckType.RELEASE), strict=True
            ):
                consumer.acknowledge(record, kind)
            assert set((await consumer.commit()).values()) == {None}

            async def states() -> dict[int, RecordState]:
                found = (await admin.describe_record_states(group))[where]
                assert found.error is None
                assert found.start_offset == 0
                return {
                    offset: one.state
                    for one in found.ranges
                    for offset in range(one.first, one.last + 1)
                }

            found = await eventually(states, lambda now: len(now) > 3)
            assert found[1] is RecordState.ACKNOWLEDGED
            assert found[2] is RecordState.ARCHIVED
            told = (await admin.describe_record_states(group, [where]))[where]
            held = {one.member_id for one in told.ranges if one.state is RecordState.ACQUIRED}
            assert held == ({consumer.member_id} if told.locks_known else set())
            assert found[0] is (RecordState.ACQUIRED if told.locks_known else RecordState.AVAILABLE)

            for record in (records[0], *records[4:]):  # looking has fenced nobody
                consumer.acknowledge(record, AckType.ACCEPT)
            assert set((await consumer.commit()).values()) == {None}

    run(scenario)


def test_a_topic_unknown_to_the_group(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 1)
        async with Admin(broker.bootstrap) as admin:
            async with consumer_of(broker, topic, group) as consumer:
                await poll_until(consumer, 1)
            unknown = TopicPartition(fresh("nothing"), 0)
            found = await admin.describe_record_states(group, [unknown])
            assert (found[unknown].start_offset, found[unknown].ranges) == (None, ())

    run(scenario)
