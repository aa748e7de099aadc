"""``share.ordering.on.failure=block`` over real sockets: a record that fails at the delivery limit
waits for an operator, and its key with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client.admin.admin import Admin
from sharegroup.model.errors import GroupIdNotFound, InvalidRecordState, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
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
    REJECT,
    RELEASE,
    TIMEOUT_MS,
    TOPIC,
    connect,
    until,
)
from tests.broker.test_order_per_key import Member, alter, core_of, ordered

AT = TopicPartition(TOPIC, 0)
INVALID_REQUEST, SHARE_SESSION_NOT_FOUND = 42, 122


async def poisoned(broker: Broker, port: int, *keys: str) -> tuple[Member, Member]:
    """As :func:`ordered`; the first record has failed twice, which is the limit."""
    a, b = await ordered(broker, port, *keys, share_delivery_count_limit="2")
    assert await alter(port, share_ordering_on_failure="block") == 0
    for _ in range(2):
        assert await a.fetch(1) == [(0, 0, _ + 1)]
        assert await a.answer(0, 0, RELEASE) == 0
    return a, b


async def shown(admin: Admin) -> list[tuple[int, int, str, int, bool]]:
    found = (await admin.describe_record_states(GROUP))[AT]
    return [(r.first, r.last, r.state.name, r.delivery_count, r.blocked) for r in found.ranges]


def test_a_key_waits_and_others_go_on(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await poisoned(broker, port, "xyxy")
        assert await a.fetch() == [(1, 1, 1), (3, 3, 1)], "x waits"
        assert await b.fetch() == []
        async with Admin(f"127.0.0.1:{port}") as admin:
            assert (await shown(admin))[0] == (0, 0, "AVAILABLE", 2, True)
            body, _ = await MetricsReader(broker.parts).text()
            line = "sharegroup_share_ordering_blocked_keys{"
            assert f'{line}group="{GROUP}",partition="0",topic="{TOPIC}"}} 1.0' in body.decode()
            await admin.release_blocked_record(GROUP, AT, 0)
            assert (await shown(admin))[0] == (0, 0, "AVAILABLE", 1, False), "one is taken back"
            assert await b.fetch() == [(0, 0, 2)]
            assert await b.answer(0, 0, RELEASE) == 0
            assert await b.fetch() == [], "it waits again"
            await admin.archive_blocked_record(GROUP, AT, 0)
            assert core_of(broker).start_offset == 1
            assert await b.fetch() == [(2, 2, 1)], "and its key goes on"
            with pytest.raises(InvalidRecordState, match="does not wait"):
                await admin.archive_blocked_record(GROUP, AT, 0)

    run(tmp_path, scenario)


def test_a_fetch_that_waits_is_woken_by_a_release(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await poisoned(broker, port, "xx")
        waiting = asyncio.ensure_future(a.fetch(wait_ms=20_000))
        async with Admin(f"127.0.0.1:{port}") as admin:
            await until(lambda: len(broker.parts.waiters) == 1)
            await admin.release_blocked_record(GROUP, AT, 0)
            assert await waiting == [(0, 0, 2)], "the one behind it waits until it is through"

    run(tmp_path, scenario)


@pytest.mark.parametrize("first_fetches", [True, False])
def test_it_waits_after_a_restart(tmp_path: Path, first_fetches: bool) -> None:
    """Whether the keys were loaded again before the operator speaks, or not."""

    async def before(broker: Broker, port: int) -> None:
        await poisoned(broker, port, "xyx")

    async def after(broker: Broker, port: int) -> None:
        found = broker.parts.topics.find(TOPIC)
        assert found is not None
        a = await Member.join(port, found.topic_id, "a")
        async with Admin(f"127.0.0.1:{port}") as admin:
            assert (await shown(admin))[0] == (0, 0, "AVAILABLE", 2, True), "as it was stored"
            if first_fetches:
                assert await a.fetch() == [(1, 1, 1)]
                await admin.release_blocked_record(GROUP, AT, 0)
                assert await a.fetch() == [(0, 0, 2), (2, 2, 1)]
            else:
                await admin.archive_blocked_record(GROUP, AT, 0)
                assert await a.fetch() == [(1, 2, 1)]

    kept = "log.retention.ms=-1"  # the records are old
    run(tmp_path, before, kept)
    run(tmp_path, after, kept)
    if not first_fetches:

        async def at_last(broker: Broker, port: int) -> None:
            async with Admin(f"127.0.0.1:{port}") as admin:
                found = (await admin.describe_record_states(GROUP))[AT]
                assert found.start_offset == 1, "an archive by hand is durable"

        run(tmp_path, at_last, kept)


def test_a_record_that_is_not_its_keys_first(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "xxx", share_delivery_count_limit="2")
        assert await alter(port, share_ordering_on_failure="block") == 0
        assert await a.fetch() == [(0, 2, 1)]
        assert await a.answer(1, 1, RELEASE) == 0
        assert await a.fetch() == [], "one of its key at a time, and the first is still held"
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await a.fetch() == [(1, 1, 2)]
        assert await a.answer(1, 1, RELEASE) == 0
        assert await a.fetch() == []
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.archive_blocked_record(GROUP, AT, 1)
        assert await a.fetch() == [(2, 2, 1)]

    run(tmp_path, scenario)


def test_archive_again_lets_all_go_on(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await poisoned(broker, port, "xx")
        assert await a.fetch() == []
        assert await alter(port, share_ordering_on_failure="archive") == 0
        assert await a.fetch() == [(0, 0, 3)], "once more, and then it is archived"
        assert await a.answer(0, 0, RELEASE) == 0
        assert core_of(broker).start_offset == 1
        assert await a.fetch() == [(1, 1, 1)]

    run(tmp_path, scenario)


def test_what_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await poisoned(broker, port, "xyx")
        async with Admin(f"127.0.0.1:{port}") as admin:
            with pytest.raises(InvalidRecordState):
                await admin.release_blocked_record(GROUP, AT, 1)
            with pytest.raises(InvalidRecordState):
                await admin.release_blocked_record(GROUP, AT, 99)
            with pytest.raises(GroupIdNotFound):
                await admin.release_blocked_record("nobody", AT, 0)
            with pytest.raises(UnknownTopicOrPartition):
                await admin.release_blocked_record(GROUP, TopicPartition(TOPIC, 7), 0)
            topic_id = a.session.topic_id
            for first, last, kinds in ((0, 0, [ACCEPT]), (0, 1, [RELEASE]), (0, 0, [])):
                assert await by_hand(port, topic_id, first, last, kinds) == INVALID_REQUEST
            assert await by_hand(port, topic_id, 0, 0, [REJECT], tag=False) == (
                SHARE_SESSION_NOT_FOUND
            ), "as from a broker that does not know the tag"
            assert await alter(port, share_ordering="none") == 0
            with pytest.raises(InvalidRecordState, match="no order"):
                await admin.release_blocked_record(GROUP, AT, 0)

    run(tmp_path, scenario)


async def by_hand(
    port: int, topic_id: object, first: int, last: int, kinds: list[int], *, tag: bool = True
) -> int:
    """The error code of such a request."""
    batch = AcknowledgementBatch(first, last, kinds)
    topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, [batch])])]  # type: ignore[arg-type]
    connection = await connect(port)
    answer = await connection.send(
        apis.SHARE_ACKNOWLEDGE,
        ShareAcknowledgeRequest(
            group_id=GROUP, member_id="operator", share_session_epoch=1, topics=topics, by_hand=tag
        ),
        timeout_ms=TIMEOUT_MS,
    )
    connection.close()
    code: int = answer.error_code or answer.responses[0].partitions[0].error_code
    return code
