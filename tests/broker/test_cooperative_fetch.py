"""Members of a consumer group that read a partition in turns (KIP-X, "Cooperative Fetch"), played
by hand on virtual time: retries, zombies, members without a sign of life, and the longest wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.delivery.cooperative_reading import SWEEP_EVERY
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.errors import (
    InconsistentGroupProtocol,
    InvalidFetchSessionEpoch,
    InvalidRequest,
    StaleMemberEpoch,
    TopicRangeFetchNotAllowed,
    UnknownMemberId,
    UnknownTopicId,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import TRANSACTIONAL, encode_batch, parse_headers
from sharegroup.wire.markers import MarkerType, encode_marker
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sharegroup.wire.messages.fetch import (
    CooperativeMember,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.ranges import Range
from tests.broker.consumer_wire import EAGER, GROUP
from tests.broker.group_wire import World, simulate

TOPIC = "foo"
BATCH = 10
REBALANCE_MS = 60_000
SESSION_MS = 45_000


class Taker:
    """A member that heartbeats, fetches and commits when it is told to."""

    def __init__(self, world: World, topic_id: UUID, name: str, **said: Any) -> None:
        self.world, self.topic_id, self.name = world, topic_id, name
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.turn = 1
        self.said = {"takes_key_ranges": True, "cooperative": True} | said

    async def beat(self) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.name,
            self.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=self.owned,
            **self.said,
        )
        answer = await self.world.send(apis.CONSUMER_GROUP_HEARTBEAT, request)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = list(answer.assignment.topic_partitions)
        return answer

    async def fetch(self, turn: int | None = None, **said: Any) -> PartitionData:
        part = FetchPartition(
            partition=0,
            fetch_offset=said.pop("offset", 0),
            partition_max_bytes=said.pop("bytes_max", 1 << 20),
            turn=self.turn if turn is None else turn,
        )
        part.key_ranges = said.pop("key_ranges", ())
        member = CooperativeMember(GROUP, self.name, said.pop("epoch", self.epoch))
        request = FetchRequest(
            max_wait_ms=said.pop("wait_ms", 0),
            min_bytes=1,
            topics=[FetchTopic(TOPIC, self.topic_id, [part])],
            isolation_level=said.pop("isolation_level", 0),
            member=said.pop("member", member),
        )
        answer = await self.world.send(apis.FETCH, request)
        assert answer.error_code == 0
        found: PartitionData = answer.responses[0].partitions[0]
        return found

    async def take(self) -> Intervals:
        """The next turn, as a member takes it whose answers arrive."""
        part = await self.fetch()
        assert part.error_code == 0
        if part.given:
            self.turn += 1
        return given(part)

    async def commit(self, *ranges: tuple[int, int]) -> int:
        where = OffsetCommitRequestPartition(0, 0, -1, "", [Range(*each) for each in ranges])
        topic = OffsetCommitRequestTopic(TOPIC, self.topic_id, [where])
        request = OffsetCommitRequest(GROUP, self.epoch, self.name, None, -1, [topic])
        answer = await self.world.send(apis.OFFSET_COMMIT, request)
        part = answer.topics[0].partitions[0]
        assert part.error_code == 0
        stable: int = part.last_stable_offset
        return stable


def given(part: PartitionData) -> Intervals:
    """The offsets, which are those of the batches of the answer."""
    ranges = tuple((one.first, one.last) for one in part.given)
    batches = [(one.base_offset, one.last_offset) for one in parse_headers(part.records or b"")]
    for first, last in ranges:
        assert any(begin <= first for begin, _ in batches)
        assert any(last <= end for _, end in batches)
    return ranges


async def topic(world: World, batches: int = 3) -> UUID:
    topic_id = await world.create_topic(TOPIC, 1)
    allowed = {"accept.range.fetch": "true"}
    world.broker.parts.configs.set_topic(TOPIC, allowed, validate_only=False)
    await write(world, batches)
    return topic_id


async def write(world: World, batches: int, *, size: int = 5) -> None:
    log = world.broker.parts.topics.log(TOPIC, 0)
    for _ in range(batches):
        batch = encode_batch([(None, bytes(size))] * BATCH, timestamp_ms=5)
        await log.wait_durable((await log.append(batch)).last_offset + 1)


async def group(world: World, topic_id: UUID, names: Sequence[str] = "ab") -> list[Taker]:
    members = [Taker(world, topic_id, name) for name in names]
    for _ in range(6):
        for member in members:
            assert (await member.beat()).error_code == 0
    assert all(member.owned for member in members)
    return members


def reads(member: Taker) -> bool:
    """Whether the member has been told that it owns partition 0."""
    return any(0 in topic.partitions for topic in member.owned)


SMALL = 150
"""Bytes that one batch fits into, and two do not."""


def test_each_fetch_gets_what_nobody_has() -> None:
    """The draft's example: one consumer is given 40-44, the other 45-49."""

    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world, 5))
        assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
        assert given(await b.fetch(bytes_max=SMALL)) == ((10, 19),)
        assert given(await a.fetch(2)) == ((20, 49),)
        assert given(await b.fetch(2)) == ()
        assert await a.commit((0, 9), (20, 49)) == 10
        assert await b.commit((10, 19)) == 50

    simulate(scenario, EAGER)


def test_a_retry_of_the_same_fetch_gets_the_same() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        await write(world, 1)
        assert await a.take() == ((30, 39),)
        await write(world, 1)
        lost = await a.fetch(a.turn)
        again = await a.fetch(a.turn)
        assert given(lost) == given(again) == ((40, 49),)
        assert lost.records == again.records
        assert await b.take() == ()

    simulate(scenario, EAGER)


@pytest.mark.parametrize("bytes_max", [1, SMALL])
def test_a_retry_with_less_room_gets_a_part_and_others_get_the_rest(bytes_max: int) -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        await write(world, 3)
        assert given(await a.fetch(2)) == ((30, 59),)
        for _ in range(2):
            assert given(await a.fetch(2, bytes_max=bytes_max)) == ((30, 39),)
        assert given(await a.fetch(2)) == ((30, 39),)
        assert await b.take() == ((40, 59),)
        assert await a.commit((0, 29), (30, 39)) == 40
        assert await b.commit((40, 59)) == 60

    simulate(scenario, EAGER)


def test_a_member_that_has_lost_its_turns_begins_anew() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        await a.take()
        await a.commit((0, 4))
        assert (await a.fetch(7)).error_code == InvalidFetchSessionEpoch.code
        assert given(await a.fetch(1)) == ((5, 29),)
        assert (await b.fetch(2)).error_code == InvalidFetchSessionEpoch.code

    simulate(scenario, EAGER)


def test_a_zombie_gets_nothing() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        unknown = Taker(world, a.topic_id, "nobody")
        unknown.epoch = a.epoch
        assert (await unknown.fetch()).error_code == UnknownMemberId.code
        assert (await a.fetch(epoch=a.epoch - 1)).error_code == StaleMemberEpoch.code
        assert (await a.fetch(epoch=a.epoch + 1)).error_code == StaleMemberEpoch.code
        assert await b.take() == ((0, 29),), "the zombies were given nothing"

    simulate(scenario, EAGER)


def test_a_member_without_a_sign_of_life_loses_what_it_has() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        await a.commit((0, 9))
        for _ in range(SESSION_MS // 5_000 + 1):
            await asyncio.sleep(5)
            await b.beat()
        assert await b.take() == ((10, 29),)
        assert (await a.fetch(2)).error_code == UnknownMemberId.code

    simulate(scenario, EAGER)


def test_a_member_that_leaves_gives_back_what_it_has() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        a.epoch = -1
        await a.beat()
        for _ in range(3):
            await b.beat()
        assert await b.take() == ((0, 29),)

    simulate(scenario, EAGER)


def test_a_member_that_has_lost_the_partition_gives_back_what_it_has() -> None:
    """It stays in the group. Until it confirms, it may still commit."""

    async def scenario(world: World) -> None:
        members = await group(world, await topic(world))
        for member in members:
            assert (await member.fetch(bytes_max=SMALL)).given
        await world.grow_topic(TOPIC, 2)
        while all(map(reads, members)):
            for member in members:
                await member.beat()
        loser, keeper = sorted(members, key=reads)
        first = BATCH * members.index(loser)
        assert given(await keeper.fetch(2)) == ((20, 29),)
        await loser.commit((first, first + 4))
        for member in (loser, keeper, loser):
            assert (await member.beat()).error_code == 0
        assert given(await keeper.fetch(3)) == ((first + 5, first + 9),)
        assert (await loser.fetch(2)).error_code == StaleMemberEpoch.code

    simulate(scenario, EAGER)


def test_the_longest_wait_closes_gaps() -> None:
    """A member that heartbeats, and neither fetches nor commits for as long as it may go without a
    poll, has lost its records."""

    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world, 6))
        assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
        assert given(await b.fetch(bytes_max=SMALL)) == ((10, 19),)
        for _ in range(REBALANCE_MS // 5_000 - 1):
            await asyncio.sleep(5)
            await a.beat()
            await b.beat()
        await b.commit((10, 10))  # so b keeps 11 to 19
        await asyncio.sleep(5)
        assert given(await b.fetch(2, bytes_max=SMALL)) == ((0, 9),)

    simulate(scenario, EAGER)


def test_a_waiting_fetch_is_woken() -> None:
    async def scenario(world: World) -> None:
        a, _ = await group(world, await topic(world, 0))
        waiting = asyncio.create_task(a.fetch(wait_ms=20_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await write(world, 1)
        assert given(await waiting) == ((0, 9),)

    simulate(scenario, EAGER)


@pytest.mark.parametrize("crash", [False, True])
def test_after_a_restart_members_begin_anew(crash: bool) -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        await a.take()
        await a.commit((0, 4), (10, 14))
        await (world.crash() if crash else world.restart())
        assert (await a.fetch(2)).error_code == InvalidFetchSessionEpoch.code
        assert given(await b.fetch(1)) == ((5, 9), (15, 29))

    simulate(scenario, EAGER)


def test_a_group_that_is_moved_back_gets_the_records_again() -> None:
    async def scenario(world: World) -> None:
        (a,) = await group(world, await topic(world), "a")
        await a.take()
        assert await a.commit((0, 29)) == 30
        assert await a.take() == ()
        back = [OffsetCommitRequestPartition(0, 20, -1, "", [])]
        topics = [OffsetCommitRequestTopic(TOPIC, a.topic_id, back)]
        request = OffsetCommitRequest(GROUP, a.epoch, a.name, None, -1, topics)
        await world.send(apis.OFFSET_COMMIT, request)
        assert given(await a.fetch(1)) == ((20, 29),)

    simulate(scenario, EAGER)


def test_a_commit_of_what_was_never_given_is_not_given() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world, 6))
        assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
        await b.commit((30, 39))
        assert given(await b.fetch(1)) == ((0, 29), (40, 59))

    simulate(scenario, EAGER)


def test_deleted_records_are_passed_over() -> None:
    async def scenario(world: World) -> None:
        a, _ = await group(world, await topic(world))
        await world.broker.parts.topics.log(TOPIC, 0).delete_records(15)
        assert given(await a.fetch(1)) == ((15, 29),)

    simulate(scenario, EAGER)


def test_a_committed_range_that_the_log_start_cuts_stays_committed() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world, 6))
        assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
        assert await b.take() == ((10, 59),)
        assert await b.commit((30, 49)) == 0
        await world.restart()  # what is known in memory only is made anew
        await world.broker.parts.topics.log(TOPIC, 0).delete_records(35)
        part = await a.fetch(1)
        assert given(part) == ((50, 59),)
        assert part.without_records == [Range(0, 29)]
        assert await a.commit((0, 29), (50, 59)) == 60

    simulate(scenario, EAGER)


def test_markers_are_told_to_every_member() -> None:
    """A member that gets no more records commits nothing any more."""

    async def scenario(world: World) -> None:
        topic_id = await topic(world, 1)
        log = world.broker.parts.topics.log(TOPIC, 0)
        for _ in range(2):
            log.append_trusted(
                encode_marker(MarkerType.COMMIT, producer_id=7, producer_epoch=0, timestamp_ms=5)
            )
        await write(world, 1)
        a, b = await group(world, topic_id)
        assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
        part = await b.fetch()
        assert given(part) == ((12, 21),)
        assert part.without_records == [Range(10, 11)]
        part = await a.fetch(2)
        assert given(part) == ()
        assert part.without_records == [Range(10, 11)]
        assert await a.commit((0, 11)) == 12

    simulate(scenario, EAGER)


def test_of_aborted_transactions_nothing_is_given() -> None:
    """Nor are they listed: a client that has the list and not the markers, which others may have,
    takes what its producer has committed later for aborted."""

    async def scenario(world: World) -> None:
        topic_id = await topic(world, 1)
        log = world.broker.parts.topics.log(TOPIC, 0)
        producer = {"producer_id": 7, "producer_epoch": 0, "timestamp_ms": 5}
        records = [(None, b"v")] * BATCH
        for number, end in enumerate((MarkerType.ABORT, MarkerType.COMMIT)):
            batch = encode_batch(
                records, attributes=TRANSACTIONAL, base_sequence=number * BATCH, **producer
            )
            log.append_trusted(batch)
            log.append_trusted(encode_marker(end, **producer))
        await log.wait_durable(log.log_end_offset)
        a, b = await group(world, topic_id)
        part = await a.fetch(isolation_level=1)
        assert given(part) == ((0, 9), (21, 30))
        assert part.aborted_transactions == []
        assert (await b.fetch(isolation_level=1)).without_records == [Range(10, 20), Range(31, 31)]
        assert await a.commit((0, 31)) == 32

    simulate(scenario, EAGER)


def test_a_first_batch_that_is_larger_goes_out() -> None:
    async def scenario(world: World) -> None:
        a, _ = await group(world, await topic(world, 0))
        await write(world, 2, size=1_000)
        assert given(await a.fetch(bytes_max=1)) == ((0, 9),)

    simulate(scenario, EAGER)


def test_wrong_requests() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        for said in (
            {"member": None},
            {"turn": -1},
            {"key_ranges": [Range(0, 5)]},
        ):
            assert (await a.fetch(**said)).error_code == InvalidRequest.code
        by_key = Taker(world, a.topic_id, "c", cooperative=False)
        assert (await by_key.beat()).error_code == InconsistentGroupProtocol.code
        plain = Taker(world, a.topic_id, "d", cooperative=False, takes_key_ranges=False)
        assert (await plain.beat()).error_code == 0
        assert (await plain.fetch()).error_code in (InvalidRequest.code, StaleMemberEpoch.code)
        world.broker.parts.configs.set_topic(TOPIC, {}, validate_only=False)
        assert (await b.fetch()).error_code == TopicRangeFetchNotAllowed.code

    simulate(scenario, EAGER)


def test_groups_without_members_are_forgotten() -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        await a.take()
        reading = world.broker.parts.cooperative_reading
        (where, one) = next(iter(reading._open.items()))
        for number in range(SWEEP_EVERY):
            reading._open[f"gone-{number}", where[1]] = one
        world.broker.parts.cooperative_reading._open.pop(where)
        await b.take()
        assert len(reading) == 1

    simulate(scenario, EAGER)


def test_a_deleted_topic_is_forgotten() -> None:
    async def scenario(world: World) -> None:
        other_id = await world.create_topic("bar", 1)
        a, b = await group(world, await topic(world))
        await a.take()
        reading = world.broker.parts.cooperative_reading
        ((where, one),) = reading._open.items()
        other = GROUP, where[1]._replace(topic_id=other_id)
        reading._open[other] = one
        await world.delete_topic(TOPIC)
        assert list(reading._open) == [other]
        assert (await b.fetch()).error_code == UnknownTopicId.code
        assert list(reading._open) == [other]

    simulate(scenario, EAGER)
