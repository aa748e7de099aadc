"""Decisions by hand about records that others hold, over real sockets and over kills."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer
from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import AHEAD_MAX
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from sharegroup.wire import apis
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    TIMEOUT_MS,
    TOPIC,
    acquired,
    codes,
    connect,
    produce,
    started,
    until,
)
from tests.broker.test_back_off import consumer_of, polled, prepared, run_with
from tests.broker.test_order_per_key import alter

AT = TopicPartition(TOPIC, 0)
INVALID_REQUEST, INVALID_RECORD_STATE = 42, 121


def test_a_fetch_of_a_paused_group_waits_and_goes_on(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1)
        assert await alter(port, share_paused="true") == 0
        await produce(port, session.topic_id, 0, 1)
        answer = await session.fetch(0)
        assert (acquired(answer), answer.error_code) == ({}, 0), "an empty answer, and no error"
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=200_000))
        await until(lambda: len(broker.parts.waiters) == 1)
        await produce(port, session.topic_id, 0, 1)
        assert len(broker.parts.waiters) == 1, "it waits on"
        assert await alter(port, share_paused="false") == 0
        assert acquired(await waiting) == {0: [(0, 1, 1)]}

    run(tmp_path, scenario)


def test_a_late_answer_over_the_wire(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        assert acquired(await session.fetch(0)) == {0: [(0, 4, 1)]}
        async with Admin(f"127.0.0.1:{port}") as admin:
            done = await admin.archive_records(GROUP, AT, 1, 3)
            assert (done.records, done.held) == (3, 3)
            done = await admin.archive_records(GROUP, AT, 1, 3)
            assert (done.records, done.held) == (0, 0)
            await produce(port, session.topic_id, 0, *[AHEAD_MAX // 4] * 4, 10)
            with pytest.raises(InvalidRecordState, match="too far"):
                await admin.accept_records(GROUP, AT, AHEAD_MAX + 10)
        answer = await session.acknowledge({0: [(0, 4, [ACCEPT])]})
        assert codes(answer) == {0: INVALID_RECORD_STATE}
        (led,) = broker.parts.share_partitions.all()
        assert led.core.start_offset == 5, "0 and 4 are accepted all the same"
        body, _ = await MetricsReader(broker.parts).text()
        labels = f'{{group="{GROUP}",partition="0",topic="{TOPIC}"}}'
        for line in (
            f"sharegroup_share_late_answers_total{labels} 3.0",
            'sharegroup_records_decided_by_hand_total{type="reject"} 3.0',
        ):
            assert line in body.decode()

    run(tmp_path, scenario)


def test_malformed_decisions(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, partitions=1, records=5)
        connection = await connect(port)
        for first, last, kinds in (
            (3, 2, [1]),
            (-1, 2, [1]),
            (0, 1, [1, 1]),
            (0, 1, [5]),
            (0, 0, []),
        ):
            batch = AcknowledgementBatch(first, last, kinds)
            topic = AcknowledgeTopic(session.topic_id, [AcknowledgePartition(0, [batch])])
            request = ShareAcknowledgeRequest(
                group_id=GROUP, member_id=None, topics=[topic], by_hand=True, every_state=True
            )
            answer = await connection.send(apis.SHARE_ACKNOWLEDGE, request, timeout_ms=TIMEOUT_MS)
            assert codes(answer) == {0: INVALID_REQUEST}
        connection.close()

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_decisions_hold_after_a_restart(how: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=6) as consumer, Admin(kafka.bootstrap) as admin:
            records = await polled(consumer, 6)
            consumer.release(records[5], delay_ms=3_600_000)
            await consumer.commit()
            await admin.accept_records(GROUP, AT, 0, 1)
            await admin.archive_records(GROUP, AT, 3)
            await admin.release_records(GROUP, AT, 5)
            await admin.purge_group(GROUP, older_than_ms=3_600_000)
            kafka.kill() if how == "kill" else kafka.stop()
        kafka.start()
        async with consumer_of(kafka) as consumer, Admin(kafka.bootstrap) as admin:
            again: list[bytes | None] = []
            while len(again) < 3:
                records = await consumer.poll()
                consumer.accept(*records)
                again += [one.value for one in records]
            await consumer.commit()
            assert again == [b"2", b"4", b"5"]
            assert kafka.group(GROUP)[TOPIC, 0].start_offset == 6

    run_with(broker(), scenario)


def test_an_operators_reason_is_in_the_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        letters = {"errors.deadletterqueue.topic.name": "dlq.jobs"}
        async with (
            prepared(kafka, records=4, **letters) as consumer,
            Admin(kafka.bootstrap) as admin,
        ):
            await admin.create_topics("dlq.jobs")
            await admin.alter_configs(
                "topic", "dlq.jobs", {"errors.deadletterqueue.group.enable": "true"}
            )
            await polled(consumer, 4)
            with caplog.at_level(logging.INFO, "sharegroup.authorizer"):
                await admin.archive_records(GROUP, AT, 1, 2, reason="no customer \udcff")
                await admin.purge_group(GROUP)
            told = [one.getMessage() for one in caplog.records if " by hand: " in one.getMessage()]
            assert told[0] == (
                "User:ANONYMOUS from 127.0.0.1 has archived by hand: 2 records of group workers, "
                "2 of them held: jobs:0 offsets 1 to 2"
            )
            assert "has purged by hand" in told[1]
            while len(found := await admin.list_dead_letters(GROUP)) < 2:
                continue
            assert {(one.cause, one.message) for one in found} == {
                ("operator", r"no customer \udcff")
            }
            async with Producer(kafka.bootstrap) as producer:
                await producer.send(TOPIC, "more")

    run_with(broker(), scenario)
