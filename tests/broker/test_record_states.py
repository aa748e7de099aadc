"""The state of each record in flight, asked with the group's offsets: what the broker tells, and
what the admin client makes of it.
"""

from __future__ import annotations

from pathlib import Path

from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.client.admin.descriptions import PartitionRecords
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.limits import RECORD_STATES_MAX
from sharegroup.share.record_state import RecordState
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    TOPIC,
    acquired,
    codes,
    produce,
    started,
)

FIRST = TopicPartition(TOPIC, 0)
LOCK_MS = 30_000

Told = list[tuple[int, int, str, int]]


def told(records: PartitionRecords) -> Told:
    return [(one.first, one.last, one.state.name, one.delivery_count) for one in records.ranges]


def test_every_state_is_reported(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        await session.fetch(0)
        kinds = [ACCEPT, ACCEPT, RELEASE, ACCEPT, REJECT]
        assert codes(await session.acknowledge({0: [(0, 4, kinds)]})) == {0: 0}
        await produce(port, session.topic_id, 0, 3)
        async with Admin(f"127.0.0.1:{port}") as admin:
            before = await admin.list_share_group_offsets(GROUP)
            found = await admin.describe_record_states(GROUP)
            assert await admin.list_share_group_offsets(GROUP) == before

        assert list(found) == [TopicPartition(TOPIC, n) for n in range(3)]
        first = found[FIRST]
        assert (first.start_offset, first.end_offset, first.locks_known) == (2, 10, True)
        assert told(first) == [
            (2, 2, "AVAILABLE", 1),
            (3, 3, "ACKNOWLEDGED", 0),
            (4, 4, "ARCHIVED", 1),
            (5, 9, "ACQUIRED", 1),
        ]
        assert [one.member_id for one in first.ranges] == [None, None, None, "m-1"]
        lock_ms = first.ranges[-1].lock_ms
        assert lock_ms is not None
        assert 0 < lock_ms <= LOCK_MS
        for partition in (1, 2):  # known to the group, and never fetched
            records = found[TopicPartition(TOPIC, partition)]
            assert (records.start_offset, records.ranges) == (None, ())

        # Looking took nothing: what is available is given, for the second time.
        assert acquired(await session.fetch()) == {0: [(2, 2, 2), (10, 12, 1)]}

    run(tmp_path, scenario)


def test_before_the_first_finished_record_the_chosen_start_is_reported(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        async with Admin(f"127.0.0.1:{port}") as admin:

            async def offset() -> tuple[int | None, int | None, int | None, int | None]:
                one = (await admin.list_share_group_offsets(GROUP))[FIRST]
                return one.start_offset, one.begins_at, one.lag, one.in_flight

            assert await offset() == (None, None, None, 0), "nothing is chosen"
            await session.fetch(0)
            assert await offset() == (None, 0, None, 10)
            broker.parts.share_partitions.forget(GROUP, session.topic_id, 0)
            assert await offset() == (None, 0, None, 0), "the choice is durable"
            records = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
            assert (records.start_offset, records.end_offset) == (0, 0)
            assert acquired(await session.fetch()) == {0: [(0, 9, 1)]}
            assert codes(await session.acknowledge({0: [(0, 3, [ACCEPT])]})) == {0: 0}
            assert await offset() == (4, None, 6, 6)

    run(tmp_path, scenario)


def test_without_a_loaded_leader_the_durable_state_is_reported(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        await session.fetch(0)
        assert codes(await session.acknowledge({0: [(4, 5, [REJECT])]})) == {0: 0}
        broker.parts.share_partitions.forget(GROUP, session.topic_id, 0)
        async with Admin(f"127.0.0.1:{port}") as admin:
            records = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
        assert told(records)[:2] == [(0, 3, "AVAILABLE", 0), (4, 5, "ARCHIVED", 0)]
        assert {one.state for one in records.ranges} <= {
            RecordState.AVAILABLE,
            RecordState.ARCHIVED,
        }
        key = SharePartitionKey(GROUP, session.topic_id, 0)
        assert broker.parts.share_partitions.find(key) is None

    run(tmp_path, scenario)


def test_more_runs_than_one_answer_holds(tmp_path: Path) -> None:
    count = 2 * RECORD_STATES_MAX + 100
    locks = {"share.partition.wide.record.locks": str(count)}

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=count, **locks)
        limits = {"max_records": count, "batch_size": count}
        assert acquired(await session.fetch(0, max_bytes=1 << 26, **limits)) == {
            0: [(0, count - 1, 1)]
        }
        kinds = [RELEASE, ACCEPT] * (count // 2)
        assert codes(await session.acknowledge({0: [(0, count - 1, kinds)]})) == {0: 0}
        async with Admin(f"127.0.0.1:{port}") as admin:
            found = await admin.describe_record_states(GROUP)
        assert told(found[FIRST]) == [
            (at, at, ("AVAILABLE", "ACKNOWLEDGED")[at % 2], 1 - at % 2) for at in range(count)
        ]

    run(tmp_path, scenario)


def test_a_finished_queue_has_nothing_in_flight(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        await session.fetch(0)
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}
        async with Admin(f"127.0.0.1:{port}") as admin:
            records = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
        assert (records.start_offset, records.end_offset, records.ranges) == (10, 10, ())

    run(tmp_path, scenario)
