"""Retention keeps what the groups that a topic names have not finished, up to a cap."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.model.errors import InvalidConfig, KafkaStorageError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import RETENTION_GROUPS_MAX
from sharegroup.wire import apis
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    TIMEOUT_MS,
    TOPIC,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    new_topic,
    produce,
    until,
)

RECORDS, IN_BATCH, IN_SEGMENT = 100, 5, 15
NAMED = {
    "internal.segment.bytes": "1000",
    "retention.ms": "1000",  # the records are of 1970: retention would delete all of them
    "share.retention.groups": GROUP,
}


async def enforced(broker: Broker) -> int:
    """The log start of partition 0 when retention has nothing more to do."""
    log = broker.parts.store.log(TOPIC, 0)
    for _ in range(4):  # a round may only close a segment, which must become durable
        await broker._enforce_retention()
        await broker.parts.store.flusher.idle()  # type: ignore[attr-defined]
    return log.log_start_offset


async def filled(broker: Broker, port: int, **configs: str) -> Session:
    """Records in segments of 15, a group, and the session of a member that holds all of them."""
    topic_id = await new_topic(broker, port, 1)
    set_topic(broker, **configs)
    await produce(port, topic_id, 0, *[IN_BATCH] * (RECORDS // IN_BATCH), size=40)
    await new_group(broker, port)
    session = Session(await connect(port), topic_id)
    await take_all(session)
    return session


async def take_all(session: Session) -> None:
    end = 0
    response = await session.fetch(0)
    while end < RECORDS:
        end = max((last + 1 for _, last, _ in acquired(response).get(0, ())), default=end)
        response = await session.fetch()


def set_topic(broker: Broker, **configs: str) -> None:
    own = NAMED | {name.replace("_", "."): text for name, text in configs.items()}
    broker.parts.configs.set_topic(TOPIC, own, validate_only=False)


async def finish(session: Session, first: int, last: int, kind: int = ACCEPT) -> None:
    assert codes(await session.acknowledge({0: [(first, last, [kind])]})) == {0: 0}


async def lost(broker: Broker, reason: str, group: str = GROUP) -> float | None:
    samples = await scraped(MetricsReader(broker.parts))
    labels = {"group": group, "topic": TOPIC, "reason": reason}
    return value(samples, "sharegroup_archived_records_total", labels)


def test_what_a_named_group_has_not_finished_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        assert await enforced(broker) == 0
        await finish(session, 0, 31)
        await finish(session, 33, 99)
        assert await enforced(broker) == 30
        await finish(session, 32, 32)
        assert await enforced(broker) == RECORDS
        assert await lost(broker, "deleted") == await lost(broker, "retention-cap") == 0

    with caplog.at_level(logging.WARNING, "sharegroup"):
        run(tmp_path, scenario)
    assert not caplog.messages


def test_groups_that_are_not_named_are_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        await new_group(broker, port, "others")
        others = Session(await connect(port), session.topic_id, group="others")
        await take_all(others)
        await finish(session, 0, 31)
        assert await enforced(broker) == 30
        assert "share group others has lost 30 records" in caplog.text
        assert await lost(broker, "deleted", "others") == 30

    run(tmp_path, scenario)


def test_all_named_groups_are_waited_for(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port, share_retention_groups=f"{GROUP}, others,{GROUP}")
        await new_group(broker, port, "others")
        others = Session(await connect(port), session.topic_id, group="others")
        await take_all(others)
        await finish(session, 0, 99)
        assert await enforced(broker) == 0
        await finish(others, 0, 46)
        assert await enforced(broker) == 45

    run(tmp_path, scenario)


@pytest.mark.parametrize("loaded", [True, False])
def test_what_the_cap_takes_is_said_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loaded: bool
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        await finish(session, 0, 2)
        if loaded:
            await capped(broker, port)

    async def capped(broker: Broker, port: int) -> None:
        set_topic(broker, share_retention_cap_bytes="2500")
        start = await enforced(broker)
        assert start % IN_SEGMENT == 0
        assert start >= 3 * IN_SEGMENT
        expected = (
            f"share group {GROUP} has lost {start - 3} records of {TOPIC}-0 that it had not "
            f"finished, of the offsets 3 to {start - 1}: they were deleted by retention beyond the "
            "cap of the topic (share.retention.cap.bytes=2500)"
        )
        said = [each for each in caplog.messages if each.startswith("share group")]
        assert said == [expected]
        assert await lost(broker, "retention-cap") == start - 3
        assert await lost(broker, "deleted") == 0
        async with Admin(f"127.0.0.1:{port}") as admin:
            told = (await admin.describe_record_states(GROUP))[TopicPartition(TOPIC, 0)]
        assert told.start_offset == start
        assert {one.reason for one in told.given_up} == {"retention-cap"}

    run(tmp_path, scenario)
    if not loaded:
        caplog.clear()
        run(tmp_path, capped)


@pytest.mark.parametrize(
    ("cap", "start"), [({"share_retention_cap_ms": "0"}, RECORDS), ({}, 0)], ids=["age", "none"]
)
def test_the_cap_may_be_an_age_and_is_none_by_default(
    tmp_path: Path, cap: dict[str, str], start: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await filled(broker, port, **cap)
        assert await enforced(broker) == start

    run(tmp_path, scenario)


def test_a_cap_takes_only_what_retention_would_take(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await filled(broker, port, retention_ms="-1", share_retention_cap_ms="0")
        assert await enforced(broker) == 0

    run(tmp_path, scenario)


def test_finished_segments_are_dropped_if_the_topic_says_so(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port, retention_ms="-1")
        await finish(session, 0, 46)
        assert await enforced(broker) == 0
        set_topic(broker, retention_ms="-1", share_retention_drop_finished="true")
        assert await enforced(broker) == 45
        await finish(session, 47, 99)
        assert await enforced(broker) == 90, "the segment that is being written stays"
        set_topic(
            broker,
            retention_ms="-1",
            share_retention_drop_finished="true",
            share_retention_groups="",
        )
        await produce(port, session.topic_id, 0, *[IN_BATCH] * 10, size=40)
        assert await enforced(broker) == 90, "no group is named"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("reset", "start"), [("earliest", 0), ("latest", RECORDS), ("by_duration:P1D", RECORDS)]
)
def test_a_group_that_has_not_begun_counts_as_if_it_began_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reset: str, start: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await new_topic(broker, port, 1)
        set_topic(broker, share_retention_drop_finished="true", retention_ms="-1")
        settings = {"share.auto.offset.reset": reset}
        broker.parts.configs.set_group(GROUP, settings, validate_only=False)
        await produce(port, topic_id, 0, *[IN_BATCH] * (RECORDS // IN_BATCH), size=40)
        assert await enforced(broker) == 0, "it has finished nothing"
        set_topic(broker)
        assert await enforced(broker) == start
        said = [each for each in caplog.messages if "has not begun" in each]
        assert len(said) == 1
        assert said[0].startswith(f"topic {TOPIC} names share group {GROUP} in share.retention")
        assert said[0].endswith("nothing is kept for it") is (reset == "latest")
        set_topic(broker, share_retention_cap_ms="0")
        assert await enforced(broker) == RECORDS
        assert ("will not get the records" in caplog.text) is (reset == "earliest")

    run(tmp_path, scenario)


def test_a_deleted_group_is_one_that_has_not_begun(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        await finish(session, 0, 46)
        assert await enforced(broker) == 45
        leave = ShareGroupHeartbeatRequest(GROUP, "starter", -1)
        await session.connection.send(apis.SHARE_GROUP_HEARTBEAT, leave, timeout_ms=TIMEOUT_MS)
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.delete_groups(GROUP)
            assert await enforced(broker) == 45, "it would begin at the first record"
            await admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "latest"})
        assert await enforced(broker) == RECORDS

    run(tmp_path, scenario)


def test_a_record_that_waits_for_its_letter_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    letters = "dlq.jobs"
    group = {
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.copy.record.enable": "true",
        "share.auto.offset.reset": "earliest",
    }

    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        broker.parts.configs.set_group(GROUP, group, validate_only=False)
        await finish(session, 0, 19)
        await finish(session, 20, 20, REJECT)
        await finish(session, 50, 50, REJECT)
        await finish(session, 21, 49)
        await finish(session, 51, 99)
        assert await enforced(broker) == 15

    async def cured(broker: Broker, port: int) -> None:
        assert await enforced(broker) == 15, "over a restart too"
        set_topic(broker, share_retention_cap_bytes="4100")
        start = await enforced(broker)
        assert 20 < start < 50
        assert (
            f"dead letters of share group {GROUP} for records of {TOPIC}-0 from offset 20 to "
            f"{start - 1} will be no copies: the records were deleted by retention beyond the cap "
            "of the topic (share.retention.cap.bytes=4100) before the letters were written"
        ) in caplog.messages
        set_topic(broker)
        async with Admin(f"127.0.0.1:{port}") as admin:
            enabled = {"errors.deadletterqueue.group.enable": "true"}
            await admin.create_topics(letters, configs=enabled)
        await until(lambda: broker.parts.store.log(letters, 0).high_watermark == 2)
        await until(lambda: not broker.parts.state.dead_counts())
        assert await enforced(broker) == RECORDS

    run(tmp_path, scenario)
    run(tmp_path, cured)


def test_a_state_that_cannot_be_read_keeps_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await filled(broker, port)
        await finish(session, 0, 98)
        for log in broker.parts.store.logs_of("__share_group_state"):
            log.fail(KafkaStorageError("broken"))  # type: ignore[attr-defined]
        assert codes(await session.acknowledge({0: [(99, 99, [ACCEPT])]})) != {0: 0}
        assert await enforced(broker) == 0
        assert "retention keeps what share groups may need" in caplog.text

    run(tmp_path, scenario)


def test_a_topic_names_only_so_many_groups(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        names = [f"g{number}" for number in range(RETENTION_GROUPS_MAX + 1)]
        set_topic(broker, share_retention_groups=",".join(names[1:]))
        with pytest.raises(InvalidConfig, match="at most 20 groups can be named"):
            set_topic(broker, share_retention_groups=",".join(names))
        with pytest.raises(InvalidConfig, match="must not be empty"):
            set_topic(broker, share_retention_groups="a,,b")

    run(tmp_path, scenario)
