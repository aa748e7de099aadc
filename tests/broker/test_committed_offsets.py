"""Committed offsets by wire: who may commit, what is kept, and what outlives a crash."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from sharegroup.broker.coordination.offset_coordinator import OffsetTransaction
from sharegroup.broker.coordination.offsets_machine import OffsetsMachine
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTxnState,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from sharegroup.model.limits import COMMITTED_OFFSETS_MAX, FETCHED_OFFSETS_MAX
from sharegroup.wire import apis
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient

A, B = ("jobs", 0), ("jobs", 1)
NOT_COMMITTED = -1
UNSTABLE = NOT_COMMITTED - UnstableOffsetCommit.code


def check(world: World) -> None:
    for runtime in world.broker._group_runtimes.all():
        runtime.machine(OffsetsMachine).check_invariants()


@pytest.mark.parametrize("version", range(2, 11))
def test_each_version_of_offset_commit(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world, offset_commit=version)
        codes = await client.commit({A: 5, B: 6, ("jobs", 2): 7, ("gone", 0): 1})
        unknown = UnknownTopicId if version >= 10 else UnknownTopicOrPartition
        assert codes == {
            A: 0,
            B: 0,
            ("jobs", 2): UnknownTopicOrPartition.code,
            ("gone", 0): unknown.code,
        }
        await world.crash()
        assert await client.fetch(A, B) == {A: 5, B: 6}
        ((topic,),) = ((await client.answer(A)).topics,)
        (answer,) = topic.partitions
        assert answer.metadata == "here"
        assert answer.committed_leader_epoch == (5 if version >= 6 else -1)

    simulate(scenario)


@pytest.mark.parametrize("version", range(1, 11))
def test_each_version_of_offset_fetch(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world, offset_fetch=version)
        assert await client.fetch(A, B) == {A: NOT_COMMITTED, B: NOT_COMMITTED}
        await client.commit({A: 5})
        assert await client.fetch(A, B) == {A: 5, B: NOT_COMMITTED}
        no_topic = -1 - UnknownTopicId.code if version >= 10 else NOT_COMMITTED
        assert await client.fetch(("gone", 1)) == {("gone", 1): no_topic}
        if version >= 2:
            assert await client.fetch() == {A: 5}
        client.group = "nobody"
        assert await client.fetch(A) == {A: NOT_COMMITTED}

    simulate(scenario)


def test_nothing_is_made_for_a_fetch() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        assert await OffsetClient(world).fetch() == {}
        assert world.broker.parts.topics.find(CONSUMER_OFFSETS) is None

    simulate(scenario)


def test_who_may_commit_to_a_group_that_does_not_exist() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        old, new = OffsetClient(world, offset_commit=8), OffsetClient(world)
        assert await old.commit({A: 1}, epoch=3, member="m") == {A: IllegalGeneration.code}
        assert await new.commit({A: 1}, epoch=3, member="m") == {A: GroupIdNotFound.code}
        old_txn = OffsetClient(world, txn_offset_commit=5)
        assert await old_txn.commit_in_transaction({A: 1}, epoch=3) == {A: IllegalGeneration.code}
        assert await new.commit_in_transaction({A: 1}, epoch=3) == {A: GroupIdNotFound.code}
        assert await new.fetch() == {}
        assert await new.commit({A: 1}, member="any") == {A: 0}
        assert await new.commit({A: 2}, epoch=3, member="any") == {A: UnknownMemberId.code}
        assert await new.fetch() == {A: 1}

    simulate(scenario)


def test_a_share_group_has_no_committed_offsets() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        await world.heartbeat("m", 0, ["jobs"], group="readers")
        client = OffsetClient(world)
        assert await client.commit({A: 1}) == {A: GroupIdNotFound.code}
        assert await client.fetch(A) == {A: NOT_COMMITTED}
        assert await client.fetch() == {}
        assert await client.delete(A) == GroupIdNotFound.code

    simulate(scenario)


def test_a_group_with_offsets_only_is_listed_until_they_are_gone() -> None:
    async def listed(world: World) -> list[tuple[str, str, str]]:
        response = await world.send(apis.LIST_GROUPS, ListGroupsRequest())
        assert response.error_code == 0
        return [(one.group_id, one.group_state, one.group_type) for one in response.groups]

    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit({A: 1, B: 2})
        for _ in range(2):
            assert await listed(world) == [("readers", "Empty", "classic")]
            assert world.broker.parts.group_registry.is_simple("readers")
            await world.restart()
        assert await client.delete(A) == {A: 0}
        assert await client.delete(B, ("jobs", 9)) == {
            B: 0,
            ("jobs", 9): UnknownTopicOrPartition.code,
        }
        assert await listed(world) == []
        assert await client.delete(A) == GroupIdNotFound.code
        await world.crash()
        assert await client.fetch() == {}

    simulate(scenario)


def test_limits() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        client.metadata = "x" * 10
        assert await client.commit({A: 1}) == {A: 0}
        client.metadata = "x" * 11
        assert await client.commit({A: 2, B: 2}) == {
            A: OffsetMetadataTooLarge.code,
            B: OffsetMetadataTooLarge.code,
        }
        client.metadata = None
        assert await client.commit({B: 3}) == {B: 0}
        assert await client.fetch() == {A: 1, B: 3}
        most = {("jobs", at): 9 for at in range(COMMITTED_OFFSETS_MAX)}
        codes = await client.commit(most)
        assert codes[A] == codes[B] == 0
        assert set(codes.values()) == {0, UnknownTopicOrPartition.code}
        codes = await client.commit({**most, ("gone", 0): 9})
        assert set(codes.values()) == {InvalidCommitOffsetSize.code}

        client.group = ""
        assert await client.commit({A: 1}) == {A: 0}  # as in Kafka
        assert await client.commit_in_transaction({A: 1}) == {A: InvalidGroupId.code}
        assert await client.delete(A) == InvalidGroupId.code
        assert await client.commit_in_transaction({A: 1}, (-1, 0)) != {A: 0}

        places = [("jobs", 0)] * FETCHED_OFFSETS_MAX
        assert (await client.answer(*places)).error_code == 0
        assert (await client.answer(*places, A)).error_code == InvalidRequest.code

    simulate(scenario, "offset.metadata.max.bytes=10")


def test_a_request_cannot_ask_for_the_same_group_for_ever() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 100)
        client = OffsetClient(world)
        await client.commit({("jobs", at): at for at in range(100)})
        enough = FETCHED_OFFSETS_MAX // 100
        groups = [OffsetFetchRequestGroup("readers", topics=None)] * (enough + 2)
        response = await client.send(apis.OFFSET_FETCH, OffsetFetchRequest(groups=groups))
        codes = [one.error_code for one in response.groups]
        assert codes == [0] * enough + [InvalidRequest.code] * 2

    simulate(scenario)


def test_several_groups_in_one_request() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        client = OffsetClient(world)
        for number in range(3):
            client.group = f"g{number}"
            await client.commit({A: number})
        groups = [OffsetFetchRequestGroup(f"g{number}", topics=None) for number in (2, 0, 7, 1)]
        response = await client.send(apis.OFFSET_FETCH, OffsetFetchRequest(groups=groups))
        found = [
            (one.group_id, [p.committed_offset for topic in one.topics for p in topic.partitions])
            for one in response.groups
        ]
        assert found == [("g2", [2]), ("g0", [0]), ("g7", []), ("g1", [1])]

    simulate(scenario)


def test_groups_in_several_partitions() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        clients = [OffsetClient(world, f"group {number}") for number in range(12)]
        for number, client in enumerate(clients):
            await client.commit({A: number})
            await client.commit_in_transaction({B: number}, (number, 0))
        offsets = world.broker.parts.offsets
        partitions = {offsets.partition_of(client.group) for client in clients}
        assert partitions == set(range(3))
        await world.crash()
        for number, client in enumerate(clients):
            await client.end(committed=number % 2 == 0, producer=(number, 0))
        await world.crash()
        for number, client in enumerate(clients):
            expected = {A: number, B: number} if number % 2 == 0 else {A: number}
            assert await client.fetch(stable=True) == expected
        assert world.broker.parts.group_registry.ids() == {client.group for client in clients}

    simulate(scenario, "offsets.topic.num.partitions=3")


def test_a_commit_is_one_batch() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 300)
        client = OffsetClient(world)
        await client.commit({("jobs", at): at for at in range(300)})
        log = world.broker.parts.topics.log(CONSUMER_OFFSETS, 0)
        (header,) = parse_headers((await log.read(0, 1 << 24)).data)
        assert header.record_count == 300
        await world.crash()
        assert await client.fetch() == {("jobs", at): at for at in range(300)}

    simulate(scenario)


@pytest.mark.parametrize("version", range(7))
def test_offsets_of_a_transaction_count_when_it_commits(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world, txn_offset_commit=version)
        await client.commit({A: 1})
        for committed, expected in ((False, 1), (True, 5)):
            assert await client.commit_in_transaction({A: 5}) == {A: 0}
            for again in (world.restart, world.crash):
                assert await client.fetch(A) == {A: 1}
                assert await client.fetch(A, stable=True) == {A: UNSTABLE}
                assert await client.fetch(stable=True) == {A: UNSTABLE}
                await again()
            await client.end(committed=committed)
            for _ in range(2):
                assert await client.fetch(A, B, stable=True) == {A: expected, B: NOT_COMMITTED}
                await world.crash()
        check(world)

    simulate(scenario)


def test_a_new_group_in_a_transaction_exists_until_it_aborts() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit_in_transaction({A: 5})
        registry = world.broker.parts.group_registry
        assert registry.is_simple("readers")
        await client.end(committed=False)
        assert registry.type_of("readers") is None

    simulate(scenario)


def test_a_producer_of_an_earlier_epoch_is_refused() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit_in_transaction({A: 5}, (7, 1))
        refused = {A: InvalidProducerEpoch.code}
        assert await client.commit_in_transaction({A: 6}, (7, 0)) == refused
        await world.crash()
        assert await client.commit_in_transaction({A: 6}, (7, 0)) == refused
        with pytest.raises(InvalidProducerEpoch):
            await client.end(committed=True, producer=(7, 0))
        await client.end(committed=True, producer=(7, 2))  # KIP-890: the marker has a later one
        assert await client.fetch(A, stable=True) == {A: 5}
        assert await client.commit_in_transaction({A: 6}, (7, 1)) == refused

    simulate(scenario)


def test_no_offset_is_written_behind_the_marker_of_its_transaction() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)

        ending = []

        async def ends_meanwhile(transaction: OffsetTransaction, partition: int) -> None:
            # It runs while the commit makes __consumer_offsets, behind this check.
            ending.append(asyncio.ensure_future(client.end(committed=True)))

        offsets = world.broker.parts.offsets
        offsets.check_transaction, check = ends_meanwhile, offsets.check_transaction
        assert await client.commit_in_transaction({A: 5}) == {A: InvalidTxnState.code}
        await ending[0]
        offsets.check_transaction = check
        assert await client.fetch(A, stable=True) == {A: NOT_COMMITTED}
        assert await client.commit_in_transaction({A: 6}) == {A: 0}
        await client.end(committed=True)
        assert await client.fetch(A, stable=True) == {A: 6}

    simulate(scenario)


def test_offsets_stay_pending_when_the_marker_cannot_be_written() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit({A: 1})
        await client.commit_in_transaction({A: 5})
        world.disk.full_for = CONSUMER_OFFSETS
        with pytest.raises(CoordinatorNotAvailable):
            await client.end(committed=True)
        assert (await client.commit({A: 2})) == {A: CoordinatorNotAvailable.code}
        world.disk.full_for = ""
        await world.crash()
        assert await client.fetch(A, stable=True) == {A: UNSTABLE}
        await client.end(committed=True)
        assert await client.fetch(A, stable=True) == {A: 5}

    simulate(scenario)


def test_a_rewrite_keeps_pending_offsets_pending() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client, other = OffsetClient(world), OffsetClient(world, "others")
        await client.commit({A: 1, B: 1})
        await client.commit_in_transaction({A: 5, B: 5}, (7, 0))
        await other.commit_in_transaction({A: 6}, (8, 0))
        await client.commit({B: 2})  # after the one in the transaction: it stays
        log = world.broker.parts.topics.log(CONSUMER_OFFSETS, 0)
        (runtime,) = world.broker._group_runtimes.all()
        for _ in range(2):
            start = log.log_start_offset
            await runtime.rewrite()
            assert log.log_start_offset > start
        await world.crash()
        assert await client.fetch(A, B) == {A: 1, B: 2}
        assert await client.fetch(A, stable=True) == {A: UNSTABLE}
        await client.end(committed=True, producer=(7, 0))
        await other.end(committed=False, producer=(8, 0))
        for _ in range(2):
            assert await client.fetch(A, B, stable=True) == {A: 5, B: 2}
            assert await other.fetch(stable=True) == {}
            await world.crash()
        check(world)

    simulate(scenario)


def test_offsets_expire() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client, own = OffsetClient(world), OffsetClient(world, "own", offset_commit=4)
        await client.commit({A: 1})
        await own.commit({A: 1}, retention_ms=25 * 60_000)
        await asyncio.sleep(4 * 60)
        await client.commit({B: 2})
        await asyncio.sleep(6 * 60 + 30)  # the check after 10 minutes
        assert await client.fetch() == {B: 2}
        await asyncio.sleep(10 * 60)
        assert await client.fetch() == {}
        assert await own.fetch() == {A: 1}
        await asyncio.sleep(10 * 60)
        assert await own.fetch() == {}
        await world.crash()
        assert await client.fetch() == {}
        assert await own.fetch() == {}

    simulate(scenario, "offsets.retention.minutes=9")


def test_offsets_go_with_their_topic() -> None:
    async def scenario(world: World) -> None:
        for topic in ("jobs", "kept"):
            await world.create_topic(topic, 2)
        client = OffsetClient(world)
        await client.commit({A: 1, ("kept", 0): 2})
        await client.commit_in_transaction({B: 3})
        await world.delete_topic("jobs")
        assert await client.fetch() == {("kept", 0): 2}
        await world.create_topic("jobs", 2)
        await client.end(committed=True)
        await world.crash()
        assert await client.fetch() == {("kept", 0): 2}

    simulate(scenario)


def test_offsets_of_a_topic_deleted_at_a_bad_moment_go_at_the_next_start() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit({A: 1})
        topics = world.broker.parts.topics
        topic = topics.find("jobs")
        assert topic is not None
        await topics.delete(topic)  # and the broker dies before it deletes the offsets
        await world.crash()
        await world.create_topic("jobs", 2)
        assert await client.fetch() == {}

    simulate(scenario)


def test_a_deleted_group_has_no_offsets() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit({A: 1})
        await client.commit_in_transaction({B: 3})
        assert await world.broker.parts.offsets.delete_group("readers")
        assert not await world.broker.parts.offsets.delete_group("readers")
        await client.end(committed=True)
        await world.crash()
        assert await client.fetch() == {}
        assert world.broker.parts.group_registry.type_of("readers") is None

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_no_answered_commit_is_lost_and_none_moves_back(seed: int) -> None:
    """Commits of several groups at once, with rewrites and crashes among them."""

    async def scenario(world: World) -> None:
        random = Random(seed)
        await world.create_topic("jobs", 2)
        clients = [OffsetClient(world, f"g{number}") for number in range(4)]
        answered = dict.fromkeys(clients, NOT_COMMITTED)
        sent = dict.fromkeys(clients, NOT_COMMITTED)

        async def go_on(client: OffsetClient) -> None:
            for _ in range(random.randint(0, 8)):
                sent[client] += 1
                offset = sent[client]
                if random.random() < 0.3:
                    await client.commit_in_transaction({A: offset})
                    await client.end(committed=True)
                elif (await client.commit({A: offset}))[A]:
                    return
                answered[client] = offset

        for _ in range(6):
            work = [asyncio.ensure_future(go_on(client)) for client in clients]
            for _ in range(random.randint(1, 60)):
                await asyncio.sleep(0)
            world.disk.crash()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await world.start()
            for client in clients:
                (found,) = (await client.fetch(A)).values()
                assert answered[client] <= found <= sent[client]
                answered[client] = found
            check(world)

    simulate(scenario, "group.share.records.per.rewrite=5")
