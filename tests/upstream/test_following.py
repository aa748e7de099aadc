"""What follows the partitions of a cluster when one of them is not as the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sharegroup.broker.delivery.following import follow_all
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    CorruptMessage,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
)
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.log import ReadableLog
from sharegroup.upstream import following, partition_log
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.wire.messages.fetch import PartitionData
from tests.upstream.leading import TOPIC_ID, Broker, Moves, plays


@contextmanager
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was said louder than INFO."""
    with caplog.at_level(logging.WARNING, "sharegroup.broker"):
        yield lambda: [one.getMessage() for one in caplog.records]


def test_a_partition_that_cannot_be_read_holds_up_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "REST_S", 1_000.0)

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        old, good = logs
        moves = Moves(logs)
        with warnings(caplog) as said:
            broker.append(0, magic=1)
            broker.append(1)
            await moves.until(lambda: good.high_watermark == 1)
            broker.append(1)
            await moves.until(lambda: good.high_watermark == 2)
            assert broker.named == [1], "the other one rests"
            assert old.high_watermark == 1, "who waits for its records is told that some came"
            with pytest.raises(CorruptMessage):
                await old.read(0, 1 << 20)
            [line] = said()
        assert "t-0 cannot be followed" in line

    plays(scenario, 2)


def test_what_could_not_be_taken_in_is_asked_for_again_after_a_rest(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "REST_S", 0.0)

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        moves = Moves(logs)
        with warnings(caplog) as said:
            broker.append(0, magic=1)
            await moves.until(lambda: log.high_watermark == 1)
            broker.append(0, magic=1)
            await moves.until(lambda: log.high_watermark == 2)
            assert len(said()) == 1
        broker.append(0)
        await moves.until(lambda: log.high_watermark == 3)
        assert (await log.read(2, 1 << 20)).data == broker.partitions[0].batches[2]

    plays(scenario, 1)


async def one_more(broker: Broker, second: ClusterLog, moves: Moves) -> None:
    """The second partition gets a record, and this is known."""
    broker.append(1)
    end = broker.partitions[1].end
    await moves.until(lambda: second.high_watermark == end)


def test_a_partition_that_is_refused_for_long_rests_and_is_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of a right, as an example. News of the others come at once: while nobody waits."""
    monkeypatch.setattr(following, "REST_S", 1_000.0)
    monkeypatch.setattr(following, "PAUSE_S", 1_000.0)

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        refused, good = logs
        moves = Moves(logs)
        broker.refusals[0] = TopicAuthorizationFailed.code
        with warnings(caplog) as said:
            for _ in range(3):
                await one_more(broker, good, moves)
            [line] = said()
        assert "t-0 cannot be followed" in line
        assert (broker.named, refused.high_watermark) == ([1], 0)

    plays(scenario, 2)


def test_who_leads_a_partition_no_more_is_asked_again_soon_and_holds_up_no_other() -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        moved, good = logs
        moves = Moves(logs)
        broker.refusals[0] = NotLeaderOrFollower.code
        broker.append(0)
        for _ in range(3):
            await one_more(broker, good, moves)
        broker.refusals.clear()
        await moves.until(lambda: moved.high_watermark == 1)

    plays(scenario, 2)


@pytest.mark.parametrize("room", [True, False])
def test_where_records_begin_is_learned_though_none_come(
    room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow group has not read what was read ahead, and somebody deletes it."""

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        log, other = logs
        moves = Moves(logs)
        await grown(broker, log, moves, 4)
        if not room:
            monkeypatch.setattr(partition_log, "CHUNK_BYTES", 1)
            assert not log.has_room
        broker.starts[0] = 3
        for _ in range(3):
            await one_more(broker, other, moves)
        assert log.log_start_offset == 3
        with pytest.raises(OffsetOutOfRange):
            await log.read(2, 1 << 20)

    plays(scenario, 2)


def test_what_is_deleted_is_followed_no_more_whoever_waits() -> None:
    """Or each end of the following would wake who waits, who would begin it anew."""

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        gone, other = logs
        moves = Moves([other])
        waiters = FetchWaiters()
        woken: list[ReadableLog] = []
        gone.on_advance = woken.append
        with waiters.watch([TopicIdPartition(TOPIC_ID, 0)], None, "group"):
            waiters.follow(gone)
            gone.gone()
            for _ in range(5):
                waiters.follow(gone)
                await follow_all(waiters, [gone])
                await one_more(broker, other, moves)
        assert (broker.named, gone.is_followed, woken) == ([1], False, [gone])

    plays(scenario, 2)


async def grown(broker: Broker, log: ClusterLog, moves: Moves, end: int) -> None:
    """The first partition has so many records, and this is known."""
    for _ in range(broker.partitions[0].end, end):
        broker.append(0)
    await moves.until(lambda: log.high_watermark == end)


def test_who_waits_behind_the_end_of_a_log_that_has_gone_back_is_told_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        moves = Moves(logs)
        await grown(broker, log, moves, 10)
        assert (await log.read(0, 1 << 20)).data == b"".join(broker.partitions[0].batches)
        with warnings(caplog) as said:
            broker.cut(0, 7)
            broker.epoch = 3
            await moves.until(lambda: log.high_watermark == 7)
            [line] = said()
        assert "t-0 has gone back in the cluster, from offset 10 to 7" in line
        assert (await log.offsets()).end == 7
        broker.append(0)
        await moves.until(lambda: log.high_watermark == 8)
        assert (await log.read(7, 1 << 20)).data == broker.partitions[0].batches[7]

    plays(scenario, 1)


def test_a_partition_that_is_refused_at_its_end_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of an earlier epoch says nothing of how far the log goes."""

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        stale, good = logs
        moves = Moves(logs)
        await grown(broker, stale, moves, 10)
        monkeypatch.setattr(following, "PAUSE_S", 1_000.0)
        broker.cut(0, 7)
        broker.epoch = 1  # who is asked is behind
        for _ in range(3):
            broker.append(1)
            await moves.until(lambda: good.high_watermark == broker.partitions[1].end)
        assert broker.named == [1]
        assert stale.high_watermark == (await stale.offsets()).end == 10

    plays(scenario, 2)


def test_a_leader_that_does_not_know_yet_what_is_replicated_takes_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        await grown(broker, log, Moves(logs), 10)
        broker.epoch = 3
        broker.partitions[0].lag = 3
        with warnings(caplog) as said:
            assert (await log.offsets()).end == 10
            assert said() == []

    plays(scenario, 1)


async def let_all_but_one_leave(
    broker: Broker, logs: list[ClusterLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants the first partition any more; the second one somebody waits for."""
    first, second = logs
    moves = Moves([second])
    second.follow(lambda: True)
    monkeypatch.setattr(partition_log, "KEPT_S", -1.0)
    for _ in range(3):  # requests under way, and those that they have begun before
        broker.append(1)
        await moves.until(lambda: second.high_watermark == broker.partitions[1].end)
    assert broker.named == [1]
    assert (first.is_followed, second.is_followed) == (False, True)


def test_what_nobody_reads_or_waits_for_is_followed_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        first, _ = logs
        await grown(broker, first, Moves([first]), 4)
        woken: list[ReadableLog] = []
        first.on_advance = woken.append
        await let_all_but_one_leave(broker, logs, monkeypatch)
        assert woken == [first], "who has begun to wait meanwhile looks again"
        monkeypatch.undo()

        broker.append(0)
        assert first.high_watermark == 4, "as it was known then"
        monkeypatch.setattr(partition_log, "FRESH_S", -1.0)
        told = await first.read(0, 1 << 20)
        assert told.data == b"".join(broker.partitions[0].batches), "what has come meanwhile, too"
        assert first.is_followed
        await grown(broker, first, Moves([first]), 6)

    plays(scenario, 2)


def test_who_waits_again_for_a_log_that_has_gone_back_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        first, _ = logs
        await grown(broker, first, Moves([first]), 4)
        await let_all_but_one_leave(broker, logs, monkeypatch)
        broker.cut(0, 2)
        broker.append(0)
        assert (await first.offsets()).end == 3

    plays(scenario, 2)


def test_who_asks_for_offsets_follows_nothing() -> None:
    async def scenario(broker: Broker, _: list[ClusterLog]) -> None:
        followed: list[ClusterLog] = []
        async with Cluster(broker.address) as cluster:
            log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, followed.append)
            for end in range(3):
                assert (await log.offsets()).end == end
                broker.append(0)
            assert (await log.offset_for_timestamp(0)) == (3, -1)
        assert not log.is_followed
        assert followed == []

    plays(scenario, 1)


def test_a_log_is_followed_as_long_as_fetches_watch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "KEPT_S", -1.0)

    async def scenario(broker: Broker, _: list[ClusterLog]) -> None:
        followed: list[ClusterLog] = []
        waiters = FetchWaiters()
        broker.append(0)
        async with Cluster(broker.address) as cluster:
            log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, followed.append)
            with waiters.watch([TopicIdPartition(TOPIC_ID, 0)], None, "group"):
                await follow_all(waiters, [log])
                assert (log.is_followed, followed, log.high_watermark) == (True, [log], 1)
                assert log.is_wanted
            assert not log.is_wanted

    plays(scenario, 1)


def test_an_answer_from_before_the_log_has_gone_back_counts_no_more() -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        await grown(broker, log, Moves(logs), 10)
        late = PartitionData(high_watermark=10, log_start_offset=0, records=b"")
        broker.cut(0, 7)
        broker.epoch = 3
        assert (await log.offsets()).end == 7
        await following._take_in(following.Asked(log, 10, room=True), late)
        assert log.high_watermark == 7

    plays(scenario, 1)
