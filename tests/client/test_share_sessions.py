"""What becomes of acknowledgements when sessions and leaders fail, against scripted brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.client import AckType, IllegalState, ShareConsumer
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    InvalidRecordState,
    InvalidShareSessionEpoch,
    KafkaError,
    NetworkException,
    NotLeaderOrFollower,
    RequestTimedOut,
    ShareSessionNotFound,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.acknowledgement_notes import Pause
from tests.client.scripted_group import TOPIC, ScriptedGroup
from tests.client.working import poll_until, run, until

P0 = TopicPartition(TOPIC, 0)


def consumer_of(group: ScriptedGroup, **settings: Any) -> ShareConsumer:
    return ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap, **settings)


def failure(outcomes: dict[TopicPartition, KafkaError | None]) -> type[KafkaError]:
    [error] = outcomes.values()
    assert error is not None
    return type(error)


@pytest.mark.parametrize(
    "passing", [CoordinatorNotAvailable, NetworkException, RequestTimedOut], ids=lambda e: e.name
)
def test_a_transient_partition_error_is_retried(passing: type[KafkaError]) -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group) as consumer,
        ):
            await poll_until(consumer, 5)
            group.refusals = [passing.code, passing.code]
            assert await consumer.commit() == {P0: None}
            epochs = [request.share_session_epoch for _, request in group.acknowledged]
            assert epochs == [1, 2, 3]

    run(scenario)


@pytest.mark.parametrize(
    "final",
    [
        InvalidRecordState,
        NotLeaderOrFollower,
        FencedLeaderEpoch,
        UnknownTopicOrPartition,
        TopicAuthorizationFailed,
    ],
    ids=lambda e: e.name,
)
def test_a_permanent_partition_error_is_the_outcome(final: type[KafkaError]) -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group) as consumer,
        ):
            await poll_until(consumer, 5)
            group.refusals = [final.code]
            assert failure(await consumer.commit()) is final
            assert len(group.acknowledged) == 1

    run(scenario)


@pytest.mark.parametrize("lost", [ShareSessionNotFound, InvalidShareSessionEpoch])
def test_a_lost_session_has_lost_its_locks(lost: type[KafkaError]) -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=10, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            records = await poll_until(consumer, 5)
            consumer.accept(*records[:2])
            group.session_errors = [lost.code]
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            consumer.accept(*records[2:])
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            assert len(group.acknowledged) == 1, "the second was not sent: its locks are gone"
            again = await poll_until(consumer, 5, consumer.accept)
            assert [record.offset for record in again] == [5, 6, 7, 8, 9]
            assert group.fetches[-1][1].share_session_epoch == 0
            assert await consumer.commit() == {P0: None}

    run(scenario)


def test_a_session_that_a_restart_has_ended_is_opened_again_at_once() -> None:
    """Without the pause of an error: nothing is wrong with the broker any more."""

    async def scenario() -> None:
        pause_ms = 3_600_000
        async with (
            ScriptedGroup([1], records=10, at_once=5) as group,
            Cluster(
                group.bootstrap, retry_backoff_ms=pause_ms, retry_backoff_max_ms=pause_ms
            ) as cluster,
        ):
            member = ShareMember(cluster, "g", subscribed_topics=[TOPIC])
            await member.start()
            assert [one.first for got in await member.fetch() for one in got.acquired] == [0]
            group.fetch_errors = [ShareSessionNotFound.code]
            assert [one.first for got in await member.fetch() for one in got.acquired] == [5]
            assert [request.share_session_epoch for _, request in group.fetches] == [0, 1, 0]
            await member.close()

    run(scenario)


def test_the_last_answer_for_a_record_says_all_about_it() -> None:
    """An earlier one's reason and rest go with it, whichever way the last one is given."""

    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            records = await poll_until(consumer, 5)
            consumer.release(*records, delay_ms=3_600_000)
            consumer.reject(*records[:4], reason="no good")
            consumer.release(records[0])
            consumer.acknowledge(records[1], AckType.RELEASE)
            consumer.acknowledge_offset(TOPIC, 0, 2, AckType.RELEASE)
            consumer.hand_over(records[3]).give_back()
            consumer.release(records[4], delay_ms=1_000)
            assert await consumer.commit() == {P0: None}
            [(_, request)] = group.acknowledged
            [said] = request.topics[0].partitions
            assert not said.reasons
            assert [*said.pauses] == [Pause(4, 4, 1_000)]

    run(scenario)


def test_what_was_said_of_a_record_goes_with_its_lock() -> None:
    """The record may come again, and then be accepted."""

    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            first, second, *_ = await poll_until(consumer, 5)
            consumer.accept(first)
            group.session_errors = [ShareSessionNotFound.code]
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            consumer.release(second, reason="not now", delay_ms=1_000)
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            assert not consumer._parts.member.pauses
            assert not consumer._parts.member.reasons

    run(scenario)


def test_fetches_do_not_all_ask_for_a_leader_that_nobody_knows() -> None:
    async def scenario() -> None:
        pause_ms = 3_600_000
        async with (
            ScriptedGroup([1, 2], records=25, at_once=5) as group,
            Cluster(
                group.bootstrap, retry_backoff_ms=pause_ms, retry_backoff_max_ms=pause_ms
            ) as cluster,
        ):
            member = ShareMember(cluster, "g", subscribed_topics=[TOPIC])
            await member.start()
            group.leaders[1] = -1
            await cluster.refresh()
            asked = []
            for _ in range(5):
                assert await member.fetch()
                requests = [name for node in group.nodes.values() for name, _ in node.requests]
                asked.append(requests.count("Metadata"))
            assert asked == [asked[0]] * 5
            await member.close()

    run(scenario)


def test_a_new_leader_has_none_of_our_locks() -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1, 2], records=5, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            group.left[2] = 0
            records = await poll_until(consumer, 5)
            group.leaders[:] = [2, 1]
            await consumer._parts.cluster.refresh()
            consumer.accept(*records)
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            assert group.acknowledged == []

    run(scenario)


def test_what_waits_to_be_sent_is_not_for_the_next_leader() -> None:
    """Whose locks may be those of a later delivery to this member."""

    async def scenario() -> None:
        async with (
            ScriptedGroup([1, 2], records=5, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            group.left[2] = 0
            records = await poll_until(consumer, 5)
            consumer.accept(*records)
            consumer._parts.committer.queue_decided()
            group.leaders[:] = [2, 1]
            await consumer._parts.cluster.refresh()
            assert failure(await consumer.commit()) is NotLeaderOrFollower
            assert group.acknowledged == []
            carried = [
                one for _, fetch in group.fetches for t in fetch.topics for one in t.partitions
            ]
            assert not any(one.acknowledgement_batches for one in carried)

    run(scenario)


def test_piggybacked_acknowledgements_are_not_retried() -> None:
    async def scenario() -> None:
        heard: list[Any] = []
        async with (
            ScriptedGroup([1], records=6, at_once=3) as group,
            consumer_of(
                group,
                max_poll_records=5,
                acknowledgement_commit_callback=lambda offsets, error: heard.append(error),
            ) as consumer,
        ):
            group.carried_refusals = [CoordinatorNotAvailable.code]
            await poll_until(consumer, 6)
            await consumer.commit()
            assert [type(error) for error in heard] == [CoordinatorNotAvailable, type(None)]

    run(scenario)


def test_record_limit_asks_one_node_at_a_time_in_turn() -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1, 2, 3], records=6, at_once=10) as group,
            consumer_of(
                group, acquire_mode="record_limit", max_poll_records=2, fetch_max_wait_ms=50
            ) as consumer,
        ):
            sizes = [len(await consumer.poll()) for _ in range(9)]
            assert sizes == [2] * 9
            assert [node for node, _ in group.fetches] == [1, 2, 3] * 3
            modes = {(r.share_acquire_mode, r.max_records) for _, r in group.fetches}
            assert modes == {(1, 2)}

    run(scenario)


def test_a_fast_application_gets_more_than_one_poll_prefetched() -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=200, at_once=1_000) as group,
            consumer_of(group, max_poll_records=10) as consumer,
        ):
            seen = 0
            while seen < 200:
                records = await consumer.poll()
                seen += len(records)
            asked = [request.max_records for _, request in group.fetches]
            assert asked[0] == 10
            assert max(asked) <= 160
            assert {request.batch_size for _, request in group.fetches} == {10}

    run(scenario)


def test_what_a_slower_node_sends_is_held_before_the_next_poll() -> None:
    """Where the records of another node have come in between: its locks must be renewed."""

    async def scenario() -> None:
        answering = asyncio.Event()
        async with (
            ScriptedGroup([1, 2], records=5, at_once=5) as group,
            consumer_of(group, max_poll_records=10) as consumer,
        ):

            async def fetch(request: Any, version: int) -> Any:
                await answering.wait()
                return group._fetch(2, request)

            group.nodes[2].handle(apis.SHARE_FETCH, fetch, (1, 2))
            await poll_until(consumer, 5)
            parts = consumer._parts
            parts.receiver.take_arrived()
            assert not parts.holdings.has_buffered
            answering.set()

            def held() -> bool:
                parts.receiver.take_arrived()
                return parts.holdings.has_buffered

            await until(held)
            assert len(await consumer.poll()) == 5
            assert [node for node, _ in group.fetches].count(2) == 1

    run(scenario)


def test_a_response_without_a_partition_is_an_error_for_it() -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group) as consumer,
        ):
            await poll_until(consumer, 5)
            group.silent = True
            assert failure(await consumer.commit()) is InvalidRecordState

    run(scenario)


def test_the_outcome_of_a_renewal_is_told_once() -> None:
    async def scenario() -> None:
        async with (
            ScriptedGroup([1], records=5, at_once=5) as group,
            consumer_of(group, acknowledgement_mode="explicit") as consumer,
        ):
            first, second, *_ = await poll_until(consumer, 5)
            consumer.renew(first)
            group.refusals = [InvalidRecordState.code]
            assert failure(await consumer.commit()) is InvalidRecordState
            consumer.accept(second)
            assert await consumer.commit() == {P0: None}

    run(scenario)


def test_a_broker_that_knows_no_renewals_takes_what_comes_after_one() -> None:
    """Apache Kafka 4.1."""
    heard: list[tuple[Any, type]] = []

    def callback(offsets: Any, error: KafkaError | None) -> None:
        heard.append((offsets[P0], type(error)))

    async def scenario() -> None:
        group = ScriptedGroup([1], records=5, at_once=5)
        async with group:
            group.nodes[1].handle(apis.SHARE_ACKNOWLEDGE, group._on(1, group._acknowledge), (1, 1))
            async with consumer_of(
                group,
                acknowledgement_mode="explicit",
                acknowledgement_commit_callback=callback,
            ) as consumer:
                first, *others = await poll_until(consumer, 5)
                consumer.renew(first)
                with pytest.raises(UnsupportedVersion, match="renewing locks needs"):
                    await consumer.commit()
                consumer.accept(*others)
                assert await consumer.commit() == {P0: None}
                with pytest.raises(IllegalState, match="was acknowledged before"):
                    consumer.accept(first)
                assert await consumer.poll(10) == []

    run(scenario)
    assert heard == [([(0, 0)], UnsupportedVersion), ([(1, 4)], type(None))]


def test_a_renewal_that_is_not_answered_in_time_goes_on() -> None:
    async def scenario() -> None:
        answering = asyncio.Event()
        async with ScriptedGroup([1], records=1, at_once=1) as group:

            async def acknowledge(request: Any, version: int) -> Any:
                await answering.wait()
                return group._acknowledge(1, request)

            group.nodes[1].handle(apis.SHARE_ACKNOWLEDGE, acknowledge, (1, 2))
            async with consumer_of(group, acknowledgement_mode="explicit") as consumer:
                [record] = await poll_until(consumer, 1)
                consumer.renew(record)
                try:
                    async with asyncio.timeout(20):
                        assert failure(await consumer.commit(timeout_ms=50)) is RequestTimedOut
                        assert failure(await consumer.commit(timeout_ms=50)) is RequestTimedOut
                finally:
                    answering.set()
                assert await consumer.commit() == {P0: None}
                assert await consumer.poll() == [record]

    run(scenario)


def test_a_commit_waits_for_acknowledgements_of_earlier_commits() -> None:
    async def scenario() -> None:
        answering = asyncio.Event()
        async with ScriptedGroup([1], records=5, at_once=5) as group:

            async def acknowledge(request: Any, version: int) -> Any:
                await answering.wait()
                return group._acknowledge(1, request)

            group.nodes[1].handle(apis.SHARE_ACKNOWLEDGE, acknowledge, (1, 2))
            async with consumer_of(group, acknowledgement_mode="explicit") as consumer:
                first, second, *_ = await poll_until(consumer, 5)
                try:
                    consumer.accept(first)
                    consumer.commit_async()
                    assert failure(await consumer.commit(timeout_ms=50)) is RequestTimedOut
                    consumer.accept(second)
                    assert failure(await consumer.commit(timeout_ms=50)) is RequestTimedOut
                    assert failure(await consumer.commit(timeout_ms=50)) is RequestTimedOut
                finally:
                    answering.set()
                assert await consumer.commit() == {P0: None}
                assert await consumer.commit() == {}

    run(scenario)


def test_closing_ends_each_session() -> None:
    async def scenario() -> None:
        async with ScriptedGroup([1, 2], records=5, at_once=5) as group:
            async with consumer_of(group) as consumer:
                await poll_until(consumer, 10)
            last = {node: request.share_session_epoch for node, request in group.acknowledged}
            assert last == {1: -1, 2: -1}

    run(scenario)


def test_closing_gives_up_in_time() -> None:
    async def scenario() -> None:
        async with ScriptedGroup([1], records=5, at_once=5) as group:
            consumer = consumer_of(group)
            await poll_until(consumer, 5)

            async def silent(request: Any, version: int) -> None:
                await asyncio.Event().wait()

            for server in group.nodes.values():
                server._handlers = dict.fromkeys(server._handlers, silent)
            consumer.commit_async()
            async with asyncio.timeout(25):
                await consumer.close(timeout_ms=100)

    run(scenario)
