"""Individual commits by wire, on virtual time: ranges behind the stable offset (KIP-X)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sharegroup.broker.internal_topics import INDIVIDUAL_COMMITS
from sharegroup.cooperative.intervals import Interval, Intervals, normal
from sharegroup.model.errors import (
    IndividualCommitNotAllowed,
    IndividualCommitTooOld,
    InvalidCommitOffsetSize,
    InvalidRequest,
    MaxIndividualCommitReached,
    UnstableOffsetCommit,
)
from sharegroup.model.limits import OFFSET_RANGES_MAX
from sharegroup.model.log import TrustedLog
from sharegroup.wire import apis
from sharegroup.wire.batch import decode_batch, parse_headers
from sharegroup.wire.internal.range_commits import decode_record
from sharegroup.wire.messages import offset_commit as commit
from sharegroup.wire.messages import offset_fetch as fetch
from sharegroup.wire.messages import txn_offset_commit as txn
from sharegroup.wire.messages.ranges import Range
from tests.broker.consumer_wire import EAGER, GROUP, beat, join
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient, Target, allow
from tests.broker.running import running
from tests.broker.test_committed_offsets import check

TOPIC = "jobs"
RANGE_BYTES = 50  # in the log: a range and its null record, by the offset that they cover
Told = tuple[int, int]
"""Error code and stable offset."""


class Reader(OffsetClient):
    """A client that commits ranges of partition 0."""

    async def commit_ranges(
        self, *ranges: Interval, start: int = -1, member: str = "", epoch: int = -1
    ) -> Told:
        partition = commit.OffsetCommitRequestPartition(
            0, start, -1, "", [Range(first, last) for first, last in ranges]
        )
        topic = commit.OffsetCommitRequestTopic(TOPIC, self._id(TOPIC), [partition])
        request = commit.OffsetCommitRequest(self.group, epoch, member, topics=[topic])
        return _told(await self.send(apis.OFFSET_COMMIT, request))

    async def commit_ranges_in_transaction(
        self, *ranges: Interval, start: int = -1, producer: tuple[int, int] = (7, 0)
    ) -> Told:
        self.world.broker.parts.offsets.check_transaction = allow
        partition = txn.TxnOffsetCommitRequestPartition(
            0, start, -1, "", [Range(first, last) for first, last in ranges]
        )
        topic = txn.TxnOffsetCommitRequestTopic(TOPIC, self._id(TOPIC), [partition])
        request = txn.TxnOffsetCommitRequest("txn", self.group, *producer, -1, "", topics=[topic])
        return _told(await self.send(apis.TXN_OFFSET_COMMIT, request))

    async def committed(self) -> tuple[int, Intervals]:
        """The committed offset, and the ranges behind it."""
        topics = [fetch.OffsetFetchRequestTopics(TOPIC, self._id(TOPIC), [0])]
        groups = [fetch.OffsetFetchRequestGroup(self.group, topics=topics)]
        request = fetch.OffsetFetchRequest(groups=groups, with_ranges=True)
        answer = await self.send(apis.OFFSET_FETCH, request)
        ((partition,),) = [topic.partitions for topic in answer.groups[0].topics]
        assert not partition.error_code, partition
        ranges = tuple((each.first, each.last) for each in partition.offset_ranges)
        return partition.committed_offset, ranges


def _told(answer: Any) -> Told:
    ((partition,),) = [topic.partitions for topic in answer.topics]
    return partition.error_code, partition.last_stable_offset


async def written(world: World) -> list[tuple[Interval, bool]]:
    """The records of ranges in their log: range, and whether it is not a null record."""
    log: TrustedLog = world.broker.parts.topics.internal_log(INDIVIDUAL_COMMITS, 0)
    data = (await log.read(0, 1 << 24)).data
    found, position = [], 0
    for header in parse_headers(data):
        for _, _, key, value in decode_batch(data[position : position + header.length]):
            assert key is not None
            record = decode_record(key, value)
            found.append(((record.first, record.last), record.written))
        position += header.length
    return found


def test_the_example_of_the_draft() -> None:
    """KIP-X, "Offset Commit": its stable offset 41 is our 42, the first that is not committed."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        assert await reader.commit_ranges((45, 47), start=43) == (0, 43)
        assert await reader.commit_ranges((50, 50)) == (0, 43)
        assert await reader.committed() == (43, ((45, 47), (50, 50)))
        assert await written(world) == [((45, 47), True), ((50, 50), True)]
        # "If there is an IC [48-49]": two null records, and the merged range.
        assert await reader.commit_ranges((48, 49)) == (0, 43)
        assert (await written(world))[2:] == [
            ((45, 47), False),
            ((50, 50), False),
            ((45, 50), True),
        ]
        assert await reader.committed() == (43, ((45, 50),))
        # "If there is an IC [43-44], we are good to move stable offset forward."
        assert await reader.commit_ranges((43, 44)) == (0, 51)
        await world.restart()  # nobody waits for this null record
        assert (await written(world))[5:] == [((45, 50), False)]
        for _ in range(2):
            assert await reader.committed() == (51, ())
            check(world)
            await world.crash()

    simulate(scenario)


def test_an_empty_range_sets_where_a_group_begins() -> None:
    """Members that begin at the same time, each at the end of the log that it saw: the first one
    decides, and the others are told."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        one, other = Reader(world), Reader(world)
        assert await one.commit_ranges((100, 99), start=100) == (0, 100)
        assert await other.commit_ranges((105, 104), start=105) == (0, 100)
        for _ in range(2):
            assert await one.committed() == (100, ())
            await world.crash()
        assert await one.commit_ranges_in_transaction((100, 99)) == (InvalidRequest.code, -1)

    simulate(scenario)


def test_nothing_is_made_for_groups_without_ranges() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit({(TOPIC, 0): 5})
        assert await reader.committed() == (5, ())
        assert world.broker.parts.topics.find(INDIVIDUAL_COMMITS) is None
        await reader.commit_ranges((7, 7))
        assert world.broker.parts.topics.find(INDIVIDUAL_COMMITS) is not None

    simulate(scenario, "offsets.topic.num.partitions=3")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_committed_is_the_union_of_all_ranges(seed: int) -> None:
    """Random commits beside a set of offsets, over crashes, rewrites and clean restarts."""
    random = Random(seed)

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit({(TOPIC, 0): 0})
        done: set[int] = set()
        start = 0
        for _ in range(150):
            choice = random.random()
            if choice < 0.85:
                ranges = []
                for _ in range(random.randint(1, 4)):
                    first = random.randint(0, 120)
                    ranges.append((first, first + random.randint(0, 6)))
                code, stable = await reader.commit_ranges(*ranges)
                committed = {at for first, last in ranges for at in range(first, last + 1)}
                is_old = max(committed) < _stable(start, done)
                assert code == (IndividualCommitTooOld.code if is_old else 0)
                done |= committed
                assert stable == _stable(start, done)
            elif choice < 0.87:
                start = random.randint(0, 60)
                done = set()
                await reader.commit({(TOPIC, 0): start})
            elif choice < 0.9:
                (runtime,) = world.broker.parts.offsets._runtimes.all()
                await runtime.rewrite()
            else:
                await (world.crash if random.random() < 0.6 else world.restart)()
            check(world)
            stable = _stable(start, done)
            behind = normal((at, at) for at in done if at > stable)
            assert await reader.committed() == (stable, behind)

    simulate(scenario)


def _stable(start: int, done: set[int]) -> int:
    while start in done:
        start += 1
    return start


def test_a_plain_commit_forgets_the_ranges() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit_ranges((45, 47), start=43)
        await reader.commit({(TOPIC, 0): 10})
        for _ in range(2):
            assert await reader.committed() == (10, ())
            await world.crash()
        assert await reader.commit_ranges((10, 44)) == (0, 45)
        await reader.commit_ranges((50, 51))
        assert await reader.delete((TOPIC, 0)) == {(TOPIC, 0): 0}
        for _ in range(2):
            assert await reader.committed() == (-1, ())
            await world.crash()
        check(world)

    simulate(scenario)


def test_ranges_go_with_their_group_and_their_topic() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader, other = Reader(world), Reader(world, "others")
        for each in (reader, other):
            await each.commit_ranges((45, 47), start=43)
        assert await world.delete_groups("readers") == {"readers": 0}
        assert await reader.committed() == (-1, ())
        assert await other.committed() == (43, ((45, 47),))
        await world.delete_topic(TOPIC)
        await world.create_topic(TOPIC, 1)
        for _ in range(2):
            assert await other.committed() == (-1, ())
            check(world)
            await world.crash()

    simulate(scenario)


def test_a_commit_that_is_too_old() -> None:
    """KIP-X, failure row 1c: the answer has the stable offset, so that the client moves up."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        assert await reader.commit_ranges((0, 49), start=0) == (0, 50)
        assert await reader.commit_ranges((10, 49)) == (IndividualCommitTooOld.code, 50)
        assert await reader.commit_ranges((10, 50)) == (0, 51)

    simulate(scenario)


def test_a_commit_in_duplicate(caplog: pytest.LogCaptureFixture) -> None:
    """KIP-X, failure row 1d: no error, and a line in the log."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit_ranges((10, 19), start=0)
        assert await reader.commit_ranges((15, 24)) == (0, 0)
        assert await reader.committed() == (0, ((10, 24),))
        assert world.broker.parts.ranges.duplicates() == 5

    simulate(scenario)
    assert "group readers: 5 offsets were committed twice" in caplog.text


def test_a_broker_that_does_not_allow_it() -> None:
    """KIP-X, failure row 1a."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        assert await reader.commit_ranges((1, 2)) == (IndividualCommitNotAllowed.code, -1)
        assert await reader.commit({(TOPIC, 0): 5}) == {(TOPIC, 0): 0}

    simulate(scenario, "accept.individual.commit=false")


def test_too_many_ranges_make_the_group_rebalance() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world, GROUP)
        member = await join(world, "one", [TOPIC])
        as_member = {"member": "one", "epoch": member.member_epoch}
        ranges = [(at, at) for at in range(2, 12, 2)]
        assert await reader.commit_ranges(*ranges, start=0, **as_member) == (0, 0)
        full = (MaxIndividualCommitReached.code, 0)
        assert await reader.commit_ranges((20, 20), **as_member) == full
        answer = await beat(world, "one", member.member_epoch)
        assert answer.member_epoch > member.member_epoch
        as_member["epoch"] = answer.member_epoch
        # What makes room is taken at once.
        assert await reader.commit_ranges((0, 1), (20, 20), **as_member) == (0, 3)
        assert await reader.committed() == (3, ((4, 4), (6, 6), (8, 8), (10, 10), (20, 20)))
        assert world.broker.parts.ranges.full == 1

    simulate(scenario, EAGER, "max.individual.commits=5")


def test_bounds_of_a_request() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        many = [(2 * at + 1, 2 * at + 1) for at in range(OFFSET_RANGES_MAX)]
        assert await reader.commit_ranges(*many, start=0) == (0, 0)
        offset, ranges = await reader.committed()
        assert (offset, len(ranges)) == (0, OFFSET_RANGES_MAX)
        too_many = (InvalidCommitOffsetSize.code, -1)
        assert await reader.commit_ranges(*many, (0, 0)) == too_many
        for wrong in ((3, 1), (-1, 2), (0, 2**63 - 1)):
            assert await reader.commit_ranges(wrong) == (InvalidRequest.code, -1)
        assert await reader.commit_ranges((0, 2 * OFFSET_RANGES_MAX)) == (
            0,
            2 * OFFSET_RANGES_MAX + 1,
        )

    simulate(scenario)


def test_a_transaction_waits_for_the_offsets_before_its_ranges() -> None:
    """KIP-X, "Transactional Support": the draft's seven steps."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        a, b = Reader(world), Reader(world)
        await a.commit({(TOPIC, 0): 40})
        commits_b = asyncio.create_task(b.commit_ranges_in_transaction((45, 49), producer=(8, 0)))
        await asyncio.sleep(1)
        assert world.broker.parts.ranges.waiting == 1
        assert await a.commit_ranges_in_transaction((40, 44)) == (0, 45)
        await asyncio.sleep(1)
        assert not commits_b.done(), "the transaction of A is open"
        await a.end(committed=True)
        assert await commits_b == (0, 50)
        assert await b.committed() == (45, ())
        await world.crash()
        await b.end(committed=True, producer=(8, 0))
        assert await b.committed() == (50, ())

    simulate(scenario)


def test_a_transaction_that_waits_too_long_is_told_to_try_again() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit({(TOPIC, 0): 40})
        waits = await reader.commit_ranges_in_transaction((45, 49))
        assert waits == (UnstableOffsetCommit.code, -1)
        assert world.broker.parts.ranges.waiting == 0

    simulate(scenario)


def test_ranges_that_adjoin_the_offset_of_a_transaction() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit_ranges((45, 49), (60, 60), start=40)
        assert await reader.commit_ranges_in_transaction((40, 44)) == (0, 45)
        assert await reader.committed() == (40, ((45, 49), (60, 60)))
        await reader.end(committed=True)
        for again in (world.restart, world.crash, world.crash):
            assert await reader.committed() == (50, ((60, 60),))
            check(world)
            await again()
        # One that moves the group back takes the ranges with it.
        await reader.commit_in_transaction({(TOPIC, 0): 3})
        await reader.end(committed=True)
        assert await reader.committed() == (3, ())
        await world.crash()
        assert await reader.committed() == (3, ())

    simulate(scenario)


def _logs_of_ranges(folder: Path) -> list[Path]:
    return list((folder / "data" / f"{INDIVIDUAL_COMMITS}-0").glob("*.log"))


def _bytes_of_ranges(folder: Path) -> int:
    """A segment may go while this looks: then there are fewer."""
    return sum(log.stat().st_size for log in _logs_of_ranges(folder) if log.exists())


def test_a_damaged_log_of_ranges_is_named_and_costs_only_ranges(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-X, failure row 1b, "IC log corrupted": what is lost comes again."""

    async def scenario() -> None:
        async with running(tmp_path) as (broker, port):
            await broker.parts.topics.create(TOPIC, 1, {})
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            await reader.commit_ranges((45, 47), start=43)
            await reader.commit_ranges((50, 50))
            await reader.commit_ranges((60, 69))
        (log,) = _logs_of_ranges(tmp_path)
        data = bytearray(log.read_bytes())
        second = parse_headers(bytes(data))[0].length
        data[second + 70] ^= 0xFF
        log.write_bytes(data)
        async with running(tmp_path) as (broker, port):
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            assert await reader.committed() == (43, ((45, 47), (60, 69)))
            assert await reader.commit_ranges((43, 59)) == (0, 70)
            assert await reader.committed() == (70, ())

    asyncio.run(scenario())
    assert f"{INDIVIDUAL_COMMITS}-0: offsets 1 to 1 are damaged" in caplog.text


def test_without_its_log_of_ranges_a_group_goes_on_at_its_committed_offset(tmp_path: Path) -> None:
    """KIP-X, failure row 1b, "IC log not found"."""

    async def scenario() -> None:
        async with running(tmp_path) as (broker, port):
            await broker.parts.topics.create(TOPIC, 1, {})
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            await reader.commit_ranges((45, 47), start=43)
        shutil.rmtree(tmp_path / "data" / f"{INDIVIDUAL_COMMITS}-0")
        async with running(tmp_path) as (broker, port):
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            assert await reader.committed() == (43, ())
            assert await reader.commit_ranges((43, 47), (60, 60)) == (0, 48)
        async with running(tmp_path) as (broker, port):
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            assert await reader.committed() == (48, ((60, 60),))

    asyncio.run(scenario())


def test_the_log_of_ranges_stays_short(tmp_path: Path) -> None:
    """The log cleaner removes the ranges that have null records."""
    options = ("individual.commit.log.segment.bytes=20000", "log.cleaner.backoff.ms=20")

    async def scenario() -> None:
        end = 0
        async with running(tmp_path, *options) as (broker, port):
            await broker.parts.topics.create(TOPIC, 1, {})
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            # Ranges and null records of a busy log go with the next cleaning but one.
            while end < 4_000 or _bytes_of_ranges(tmp_path) > end * RANGE_BYTES / 2:
                await reader.commit_ranges(*((n, n) for n in range(end + 1, end + 200, 2)), start=0)
                await reader.commit_ranges((end, end + 199))
                end += 200
            await reader.commit_ranges((end + 100, end + 109))
            log = broker.parts.topics.internal_log(INDIVIDUAL_COMMITS, 0)
            assert log.log_end_offset > 3_900
            assert await reader.committed() == (end, ((end + 100, end + 109),))
        async with running(tmp_path, *options) as (broker, port):
            reader = Reader(Target(lambda: port, broker.parts.topics.id_of))
            assert await reader.committed() == (end, ((end + 100, end + 109),))

    asyncio.run(scenario())
