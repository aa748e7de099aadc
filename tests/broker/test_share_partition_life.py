"""A share partition at its leader: loaded once, and loaded again when a write fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from sharegroup.broker.delivery import share_partitions
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    TOPIC,
    Session,
    ack_codes,
    acquired,
    codes,
    connect,
    endpoints,
    new_group,
    new_topic,
    parts,
    produce,
    started,
)
from tests.storage.faulty_disk import FaultyDisk

WAIT_MS = 60_000
"""Longer than any rest: the fetch is woken."""


async def loaded(broker: Broker, group: str = GROUP) -> LedSharePartition:
    """Partition 0 of the topic as the group's leader has it."""
    topic = broker.parts.topics.find(TOPIC)
    assert topic is not None
    key = SharePartitionKey(group, topic.topic_id, 0)
    return await broker.parts.share_partitions.get(key, broker.parts.topics.log(TOPIC, 0))


@pytest.mark.parametrize(
    ("reset", "start"),
    [("earliest", 0), ("latest", 5), ("by_duration:P40000D", 0), ("", 5)],
)
def test_where_delivery_starts(tmp_path: Path, reset: str, start: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 1)
        await produce(port, topic_id, 0, 5)
        await new_group(broker, port, share_auto_offset_reset=reset or "earliest")
        if not reset:
            broker.parts.configs.set_group(GROUP, {}, validate_only=False)
        led = await loaded(broker)
        assert led.core.start_offset == start
        assert (await broker.parts.state.read(led.key, 0)).start_offset == start, "durable at once"

    run(tmp_path, scenario)


def test_no_record_is_as_recent_as_the_reset_policy_requires(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(
            broker, port, partitions=1, records=5, share_auto_offset_reset="by_duration:PT1H"
        )
        with pytest.raises(errors.OffsetNotAvailable):
            await loaded(broker)
        assert (await session.fetch(0)).responses[0].partitions[0].error_code != 0
        broker.parts.configs.set_group(
            GROUP, {"share.auto.offset.reset": "earliest"}, validate_only=False
        )
        assert acquired(await session.fetch()) == {0: [(0, 4, 1)]}, "it is tried again"

    run(tmp_path, scenario)


def test_a_share_partition_is_loaded_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await started(broker, port, partitions=1)
        found = await asyncio.gather(*(loaded(broker) for _ in range(5)))
        assert len(set(found)) == 1
        assert await loaded(broker) is found[0]

    run(tmp_path, scenario)


@pytest.mark.parametrize("reason", ["never made", "a later leader"])
def test_what_a_client_sees_of_a_failed_load(tmp_path: Path, reason: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        if reason == "never made":
            session = Session(await connect(port), session.topic_id, group="others")
            code = errors.OffsetNotAvailable.code
        else:
            await broker.parts.state.read(SharePartitionKey(GROUP, session.topic_id, 0), 7)
            code = errors.NotLeaderOrFollower.code
        response = await session.fetch(0)
        assert parts(response)[0].error_code == code
        assert endpoints(response) == ([] if reason == "never made" else [(1, "127.0.0.1", port)])

    run(tmp_path, scenario)


def test_one_fetch_at_a_time_reads_a_share_partition(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        (await loaded(broker)).fetching = True
        assert acquired(await session.fetch(0)) == {}
        (await loaded(broker)).fetching = False
        assert acquired(await session.fetch()) == {0: [(0, 4, 1)]}
        assert not (await loaded(broker)).fetching

    run(tmp_path, scenario)


@pytest.mark.parametrize("types", [[ACCEPT], [REJECT], [ACCEPT, REJECT, ACCEPT]])
def test_an_acknowledgement_that_cannot_be_written(tmp_path: Path, types: list[int]) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        disk.append_errno = errno.ENOSPC
        response = await session.fetch(acks={0: [(1, 3, types)]}, max_records=0)
        assert ack_codes(response) == {0: errors.CoordinatorNotAvailable.code}
        disk.append_errno = 0
        assert acquired(await session.fetch()) == {}, "it rests, so that nobody asks in a loop"
        with pytest.raises(errors.CoordinatorNotAvailable, match="could not be written"):
            await loaded(broker)
        assert acquired(await session.fetch(max_wait_ms=WAIT_MS)) == {0: [(0, 4, 1)]}
        led = await loaded(broker)
        assert (led.core.start_offset, led.core.delivery_complete_count) == (0, 0)
        assert ack_codes(await session.fetch(acks={0: [(0, 4, [ACCEPT])]})) == {0: 0}

    run(tmp_path, scenario, disk=disk)


def test_what_a_client_sees_of_a_failed_write(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        led = await loaded(broker)
        led.core.state_epoch -= 1
        response = await session.fetch(acks={0: [(1, 3, [ACCEPT])]}, max_records=0)
        assert ack_codes(response) == {0: errors.NotLeaderOrFollower.code}
        assert led.fenced
        response = await session.fetch()
        assert acquired(response) == {0: [(0, 4, 1)]}
        assert endpoints(response) == []

    run(tmp_path, scenario)


def test_an_acknowledgement_that_has_moved_is_told_where_to(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        response = await session.acknowledge({0: [(0, 0, [ACCEPT])]})
        assert (codes(response), endpoints(response)) == ({0: 0}, [])
        (await loaded(broker)).core.state_epoch -= 1
        response = await session.acknowledge({0: [(1, 3, [ACCEPT])]})
        assert codes(response) == {0: errors.NotLeaderOrFollower.code}
        leader = parts(response)[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (1, 0)
        assert endpoints(response) == [(1, "127.0.0.1", port)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("limit", ["2", "5"])
def test_an_expiry_of_locks_that_cannot_be_written(tmp_path: Path, limit: str) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(
            broker, port, partitions=1, records=5, share_delivery_count_limit=limit
        )
        for count in (1, 2):
            assert acquired(await session.fetch(0)) == {0: [(0, 4, count)]}
            if count == 1:
                await session.fetch(acks={0: [(0, 4, [2])]}, max_records=0)
        led = await loaded(broker)
        deadline_ms = led.core.next_deadline_ms()
        assert deadline_ms is not None
        disk.append_errno = errno.ENOSPC
        change = led.core.tick(deadline_ms, broker.parts.share_partitions.delivery_settings(GROUP))
        assert change is not None
        assert change.expired == 5
        with pytest.raises(errors.CoordinatorNotAvailable):
            await broker.parts.share_partitions.persist([(led, change)])
        disk.append_errno = 0
        assert led.fenced
        assert acquired(await session.fetch(max_wait_ms=WAIT_MS)) == {0: [(0, 4, 2)]}, (
            "the durable count is one"
        )

    run(tmp_path, scenario, disk=disk)


def test_an_end_of_a_session_that_cannot_be_written(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        assert ack_codes(await session.fetch(acks={0: [(1, 1, [ACCEPT])]})) == {0: 0}
        led = await loaded(broker)
        disk.append_errno = errno.ENOSPC
        await broker.parts.share_partitions.release_member(GROUP, session.member)
        disk.append_errno = 0
        assert led.fenced
        other = Session(await connect(port), session.topic_id, member="m-2")
        assert acquired(await other.fetch(0, max_wait_ms=WAIT_MS)) == {0: [(0, 0, 1), (2, 4, 1)]}

    run(tmp_path, scenario, disk=disk)


def test_groups_without_share_partitions_are_forgotten_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_partitions, "GROUP_SETTINGS_MAX", 3)

    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        led = await loaded(broker)
        of = broker.parts.share_partitions.delivery_settings
        first = [of(name) for name in "abc"]
        assert all(of(name) is one for name, one in zip("abc", first, strict=True))
        of("d")
        assert of("a") is not first[0]
        broker.parts.configs.set_group(GROUP, {"share.ordering": "key"}, validate_only=False)
        of(GROUP)
        assert led.fenced, "what was in force before is still known"

    run(tmp_path, scenario)
