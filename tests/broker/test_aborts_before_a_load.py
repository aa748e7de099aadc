"""A transaction that holds records is aborted after a restart, before anybody fetches: the records
come back as after a release all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sharegroup.model.dead_records import Cause
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.record_state import RecordState
from tests.broker.running import running
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    started,
    until,
)
from tests.broker.test_bad_transactional_acks import code_of, request
from tests.broker.transaction_wire import TransactionalProducer, close_all

LIMIT: dict[str, Any] = {
    "share.delivery.count.limit": "2",
    "errors.deadletterqueue.topic.name": "dlq.jobs",  # nobody makes it: what is dead stays so
}
BACK_OFF = {"share.release.backoff.ms": "600000"}


def test_the_limit_and_the_back_off_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (broker, port):
            session = await started(broker, port, records=3, **LIMIT)
            assert acquired(await session.fetch(0)) == {0: [(0, 2, 1)]}
            back = {0: [(0, 0, [RELEASE]), (2, 2, [ACCEPT])]}
            assert codes(await session.acknowledge(back)) == {0: 0}
            assert acquired(await session.fetch(0)) == {0: [(0, 0, 2)]}
            producer = await TransactionalProducer.start(port)
            held = request(session, producer, (0, 0, REJECT), (1, 1, ACCEPT))
            assert await code_of(session, held) == 0
            await close_all()
        key = SharePartitionKey(GROUP, session.topic_id, 0)
        async with running(tmp_path) as (broker, port):
            await new_group(broker, port, **LIMIT, **BACK_OFF)
            await TransactionalProducer.start(port)
            transactions = broker.parts.transactions
            await until(lambda: not any(each.prepared for each in transactions.all()))
            assert broker.parts.share_partitions.find(key) is None
            [dead] = await broker.parts.state.dead(key)
            assert (dead.first, dead.last, dead.delivery_count) == (0, 0, 2)
            assert (dead.cause, dead.member_id) == (Cause.RELEASED, session.member)
            again = Session(await connect(port), session.topic_id, "m-2")
            assert acquired(await again.fetch(0)) == {}
            led = broker.parts.share_partitions.find(key)
            assert led is not None
            assert led.core.start_offset == 1
            [resting, _] = led.core.spans()
            assert resting[:2] == (1, 1)
            assert (resting.state, resting.delivery_count) == (RecordState.DELAYED, 1)
            await close_all()

    asyncio.run(asyncio.wait_for(scenario(), 240))
