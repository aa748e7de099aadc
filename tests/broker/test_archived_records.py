"""Records that were given up: told with their reason, and counted by group and topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker import hot_path_counters
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.client.admin.descriptions import RecordRange
from sharegroup.model.ids import TopicPartition
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    TOPIC,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    started,
)

FIRST = TopicPartition(TOPIC, 0)


def archived(ranges: tuple[RecordRange, ...]) -> list[tuple[int, int, str | None, int]]:
    return [
        (one.first, one.last, one.reason, one.delivery_count)
        for one in ranges
        if one.state.name == "ARCHIVED"
    ]


async def count(broker: Broker, reason: str, group: str = GROUP, topic: str = TOPIC) -> float:
    samples = await scraped(MetricsReader(broker.parts))
    labels = {"group": group, "topic": topic, "reason": reason}
    found = value(samples, "sharegroup_archived_records_total", labels)
    assert found is not None
    return found


def test_each_reason_is_reported_before_and_after_the_start_offset(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=20, **{"share.delivery.count.limit": "2"})
        await session.fetch(0)
        assert await count(broker, "delivery-limit") == 0, "a counter begins before it is needed"
        kinds = [REJECT, REJECT, ACCEPT, RELEASE, *[ACCEPT] * 5, REJECT]
        assert codes(await session.acknowledge({0: [(0, 9, kinds)]})) == {0: 0}
        assert acquired(await session.fetch()) == {0: [(3, 3, 2)]}
        assert codes(await session.acknowledge({0: [(3, 3, [RELEASE])]})) == {0: 0}
        assert codes(await session.acknowledge({0: [(12, 13, [REJECT])]})) == {0: 0}
        async with Admin(f"127.0.0.1:{port}") as admin:
            told = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
            assert told.start_offset == 10
            assert archived(told.given_up) == [
                (0, 1, "rejected", 1),
                (3, 3, "delivery-limit", 2),
                (9, 9, "rejected", 1),
            ]
            assert archived(told.ranges) == [(12, 13, "rejected", 1)]

            await admin.delete_records({FIRST: 15})
            told = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
            assert told.start_offset == 15
            assert archived(told.given_up)[-3:] == [
                (10, 11, "deleted", 1),
                (12, 13, "rejected", 1),
                (14, 14, "deleted", 1),
            ]
            assert await count(broker, "rejected") == 5
            assert await count(broker, "delivery-limit") == 1
            assert await count(broker, "deleted") == 3

            broker.parts.share_partitions.forget(GROUP, session.topic_id, 0)
            told = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
            assert told.given_up == (), "the leader remembers, and it is gone"
            assert await count(broker, "rejected") == 5

    run(tmp_path, scenario)


def test_groups_beyond_the_limit_of_labels_are_summed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_path_counters, "GROUP_LABELS_MAX", 1)

    async def scenario(broker: Broker, port: int) -> None:
        first = await started(broker, port, records=5)
        sessions = [first]
        for group in ("other", "third"):
            await new_group(broker, port, group)
            sessions.append(Session(await connect(port), first.topic_id, group=group))
        for session in sessions:
            await session.fetch(0)
            assert codes(await session.acknowledge({0: [(0, 1, [REJECT])]})) == {0: 0}
        assert await count(broker, "rejected") == 2
        assert await count(broker, "rejected", "other", "") == 4
        samples = await scraped(MetricsReader(broker.parts))
        name = "sharegroup_acknowledged_records_total"
        groups = {dict(labels)["group"] for sample, labels in samples if sample == name}
        assert groups == {GROUP, "other"}

    run(tmp_path, scenario)


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("reason", ["retention", "DeleteRecords"])
def test_records_that_are_deleted_unfinished_are_logged(
    reason: str, loaded: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a group without members too, whose share partition is not in memory (issue 27)."""

    async def worked(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=20, **{"share.delivery.count.limit": "2"})
        await session.fetch(0)
        assert codes(await session.acknowledge({0: [(0, 3, [ACCEPT])]})) == {0: 0}
        if loaded:
            await deleted(broker, port)

    async def deleted(broker: Broker, port: int) -> None:
        async with Admin(f"127.0.0.1:{port}") as admin:
            if reason == "retention":
                broker.parts.store.set_topic_config(TOPIC, {"retention.ms": "0"})
                log = broker.parts.store.log(TOPIC, 0)
                while log.log_start_offset < 20:  # the first round may only close the segment
                    await broker._enforce_retention()
                    await asyncio.sleep(0)
            else:
                await admin.delete_records({FIRST: 15})
            end = 20 if reason == "retention" else 15
            expected = (
                f"share group {GROUP} has lost {end - 4} records of {TOPIC}-0 that it had not "
                f"finished, of the offsets 4 to {end - 1}: they were deleted by {reason}"
            )
            assert [each for each in caplog.messages if each.startswith("share group")] == [
                expected
            ]
            assert await count(broker, "deleted") == end - 4
            told = (await admin.describe_record_states(GROUP, [FIRST]))[FIRST]
            assert told.start_offset == end
            assert {(each[2], each[0] >= 4) for each in archived(told.given_up)} == {
                ("deleted", True)
            }

    run(tmp_path, worked)
    if not loaded:
        caplog.clear()
        run(tmp_path, deleted)
