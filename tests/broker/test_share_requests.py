"""ShareFetch and ShareAcknowledge over real sockets: what a correct client may rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.wire.apis import SHARE_FETCH
from sharegroup.wire.batch import batch_bounds
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    Session,
    ack_codes,
    acquired,
    codes,
    connect,
    new_group,
    new_topic,
    parts,
    produce,
    started,
)


def test_one_partition_is_fetched(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        assert acquired(await session.fetch(0)) == {}
        await produce(port, session.topic_id, 0, 10)
        response = await session.fetch()
        assert response.acquisition_lock_timeout_ms == 30_000
        assert [topic.topic_id for topic in response.responses] == [session.topic_id]
        assert acquired(response) == {0: [(0, 9, 1)]}
        assert codes(response) == ack_codes(response) == {0: 0}
        assert batch_bounds(parts(response)[0].records) == [(0, 9)]

    run(tmp_path, scenario)


def test_several_partitions_are_fetched(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition in range(3):
            await produce(port, session.topic_id, partition, 10)
        assert acquired(await session.fetch(0, 1, 2)) == {n: [(0, 9, 1)] for n in range(3)}

    run(tmp_path, scenario)


# What is seen of ten records after all of them met a verb: (delivered again, for the second time).
VERBS = {ACCEPT: {}, RELEASE: {0: [(0, 9, 2)]}, REJECT: {}}


@pytest.mark.parametrize("verb", VERBS)
def test_acknowledging_by_its_own_request(tmp_path: Path, verb: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        response = await session.acknowledge({0: [(0, 9, [verb])]})
        assert response.acquisition_lock_timeout_ms == 30_000
        assert codes(response) == {0: 0}
        assert acquired(await session.fetch()) == VERBS[verb]
        await produce(port, session.topic_id, 0, 5)
        assert acquired(await session.fetch()) == {0: [(10, 14, 1)]}

    run(tmp_path, scenario)


@pytest.mark.parametrize("verb", VERBS)
def test_acknowledging_with_the_next_fetch(tmp_path: Path, verb: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        response = await session.fetch(acks={0: [(0, 9, [verb])]})
        assert codes(response) == ack_codes(response) == {0: 0}
        assert acquired(response) == VERBS[verb]
        await produce(port, session.topic_id, 0, 5)
        assert acquired(await session.fetch()) == {0: [(10, 14, 1)]}

    run(tmp_path, scenario)


def test_a_record_is_not_delivered_more_often_than_the_limit(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10, share_delivery_count_limit="2")
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        assert codes(await session.acknowledge({0: [(0, 9, [RELEASE])]})) == {0: 0}
        assert acquired(await session.fetch()) == {0: [(0, 9, 2)]}
        assert codes(await session.acknowledge({0: [(0, 9, [RELEASE])]})) == {0: 0}
        await produce(port, session.topic_id, 0, 5)
        assert acquired(await session.fetch()) == {0: [(10, 14, 1)]}

    run(tmp_path, scenario)


def test_members_of_a_group_share(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port)
        await produce(port, one.topic_id, 0, *[1] * 10)
        two = Session(await connect(port), one.topic_id, "m-2")
        three = Session(await connect(port), one.topic_id, "m-3")
        got = [acquired(await member.fetch(0, max_records=1)) for member in (one, two, three)]
        assert got == [{0: [(n, n, 1)]} for n in range(3)]

    run(tmp_path, scenario)


def test_records_come_from_few_partitions_and_from_all_without_their_bytes(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition, batches in enumerate((2, 10, 10)):
            await produce(port, session.topic_id, partition, *[10] * batches)
        first = acquired(await session.fetch(0, 1, 2, max_records=20))
        assert sum(last - first + 1 for [(first, last, _)] in first.values()) == 20
        assert len(first) == 1
        spread = acquired(await session.fetch(max_records=90, batch_size=90, without_records=True))
        sizes = sorted(last - first + 1 for [(first, last, _)] in spread.values())
        assert len(spread) == 3 - (0 in first)
        assert max(sizes) <= 50, "as many as there are, the rest divided evenly"

    run(tmp_path, scenario)


def test_groups_do_not_share(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        first = await started(broker, port, records=10)
        assert acquired(await first.fetch(0)) == {0: [(0, 9, 1)]}
        for group in ("other", "third"):
            await new_group(broker, port, group)
            member = Session(await connect(port), first.topic_id, group=group)
            assert acquired(await member.fetch(0)) == {0: [(0, 9, 1)]}

    run(tmp_path, scenario)


def test_closing_with_a_fetch_acknowledges_and_releases_the_rest(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        response = await session.fetch(acks={0: [(0, 4, [ACCEPT])]}, epoch=-1)
        assert ack_codes(response) == {0: 0}
        assert acquired(response) == {}
        assert broker.parts.sessions.get(session.group, session.member) is None
        again = Session(session.connection, session.topic_id, "m-2")
        assert acquired(await again.fetch(0)) == {0: [(5, 9, 2)]}

    run(tmp_path, scenario)


def test_closing_fetches_nothing_even_when_partitions_are_named(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        assert acquired(await session.fetch(0)) == {}
        await produce(port, session.topic_id, 0, 10)
        response = await session.fetch(1, epoch=-1)
        assert (response.acquisition_lock_timeout_ms, parts(response)) == (30_000, {})

    run(tmp_path, scenario)


def test_closing_with_an_acknowledgement_releases_the_rest(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        assert codes(await session.acknowledge({0: [(0, 4, [ACCEPT])]}, epoch=-1)) == {0: 0}
        again = Session(session.connection, session.topic_id, "m-2")
        assert acquired(await again.fetch(0)) == {0: [(5, 9, 2)]}

    run(tmp_path, scenario)


def test_a_forgotten_partition_is_not_fetched_any_more(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        assert acquired(await session.fetch(0, 1)) == {}
        await produce(port, session.topic_id, 0, 10)
        await produce(port, session.topic_id, 1, 10)
        response = await session.fetch(forget=[0])
        assert acquired(response) == {1: [(0, 9, 1)]}
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("batches", "records_max", "got"),
    [
        pytest.param([10], 1, [(0, 9, 1)], id="one batch is not cut"),
        pytest.param([1] * 10, 1, [(0, 0, 1)], id="one record"),
        pytest.param([1] * 10, 5, [(n, n, 1) for n in range(5)], id="a range for each batch"),
    ],
)
def test_max_records_with_a_batch_size_of_one(
    tmp_path: Path, batches: list[int], records_max: int, got: list[tuple[int, int, int]]
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        await produce(port, session.topic_id, 0, *batches)
        response = await session.fetch(0, max_records=records_max, batch_size=1)
        assert acquired(response) == {0: got}

    run(tmp_path, scenario)


def test_ranges_are_cut_at_batches_by_batch_size(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        await produce(port, session.topic_id, 0, 3, 3, 3)
        response = await session.fetch(0, max_records=5, batch_size=1)
        assert acquired(response) == {0: [(0, 2, 1), (3, 5, 1)]}
        assert batch_bounds(parts(response)[0].records) == [(0, 2), (3, 5)]

    run(tmp_path, scenario)


def test_a_replaced_session_keeps_its_locks(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        assert acquired(await session.fetch(0, epoch=0)) == {}
        session.epoch = 1
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}

    run(tmp_path, scenario)


def test_partitions_take_turns(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition in range(3):
            await produce(port, session.topic_id, partition, *[5] * 4)
        got = [acquired(await session.fetch(0, 1, 2, max_records=5)) for _ in range(4)]
        assert [list(each) for each in got] == [[0], [1], [2], [0]]

    run(tmp_path, scenario)


def test_max_records_is_a_total_over_partitions(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition in range(3):
            await produce(port, session.topic_id, partition, *[5] * 4)
        got = acquired(await session.fetch(0, 1, 2, max_records=30))
        sizes = [sum(last - first + 1 for first, last, _ in ranges) for ranges in got.values()]
        assert sorted(sizes) == [10, 20]

    run(tmp_path, scenario)


def sizes(response: Any) -> list[int]:
    return [len(part.records) for part in parts(response).values() if part.records]


@pytest.mark.parametrize("by", ["request", "broker"])
def test_bytes_are_divided_over_partitions(tmp_path: Path, by: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition in range(3):
            await produce(port, session.topic_id, partition, *[1] * 60, size=1000)
        wanted = 1 << 20 if by == "broker" else 90_000
        response = await session.fetch(0, 1, 2, max_bytes=wanted)
        assert len(sizes(response)) == 3
        assert all(25_000 < size <= 30_000 for size in sizes(response)), sizes(response)

    run(tmp_path, scenario, *(["fetch.max.bytes=90000"] if by == "broker" else []))


def test_only_the_first_batch_may_be_over_the_limit(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        for partition in range(2):
            await produce(port, session.topic_id, partition, 1, 1, size=5000)
        response = await session.fetch(0, 1, max_bytes=2000)
        assert acquired(response) == {0: [(0, 0, 1)]}
        assert acquired(await session.fetch(max_bytes=2000)) == {1: [(0, 0, 1)]}

    run(tmp_path, scenario)


NO_FETCH = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def test_a_renewing_fetch_acknowledges_and_fetches_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
        await produce(port, session.topic_id, 0, 5)
        acks = {0: [(0, 4, [ACCEPT]), (5, 9, [RENEW])]}
        response = await session.fetch(acks=acks, is_renew_ack=True, **NO_FETCH)
        assert ack_codes(response) == {0: 0}
        assert acquired(response) == {}
        assert codes(await session.acknowledge({0: [(5, 9, [RENEW])]}, is_renew_ack=True)) == {0: 0}
        assert acquired(await session.fetch()) == {0: [(10, 14, 1)]}

    run(tmp_path, scenario)


def test_a_partition_is_listed_only_with_records_or_an_error(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port)
        assert codes(await session.fetch(0)) == {0: 0}
        assert codes(await session.fetch()) == {}
        assert codes(await session.fetch(1)) == {1: 0}
        assert codes(await session.fetch(7)) == {7: errors.UnknownTopicOrPartition.code}
        assert codes(await session.fetch()) == {7: errors.UnknownTopicOrPartition.code}
        assert codes(await session.fetch(forget=[7])) == {}

    run(tmp_path, scenario)


def test_acknowledging_nothing_for_a_partition_is_fine(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        await session.fetch(0)
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])], 1: []})) == {0: 0, 1: 0}
        assert codes(await session.acknowledge({1: []})) == {}

    run(tmp_path, scenario)


def test_a_session_may_be_without_partitions(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert codes(await session.fetch()) == {}
        assert codes(await session.fetch(0, max_records=0)) == {0: 0}
        assert codes(await session.fetch(forget=[0], max_wait_ms=20_000)) == {}
        assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}

    run(tmp_path, scenario)


def test_other_members_keep_what_they_hold_when_a_session_ends(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        one = await started(broker, port)
        await produce(port, one.topic_id, 0, 5, 5)
        two = Session(await connect(port), one.topic_id, "m-2")
        assert acquired(await one.fetch(0, max_records=5)) == {0: [(0, 4, 1)]}
        assert acquired(await two.fetch(0, max_records=5)) == {0: [(5, 9, 1)]}
        await one.fetch(epoch=-1)
        assert codes(await two.acknowledge({0: [(5, 9, [ACCEPT])]})) == {0: 0}
        assert acquired(await two.fetch()) == {0: [(0, 4, 2)]}

    run(tmp_path, scenario)


def test_a_partition_that_cannot_be_loaded_does_not_delay_the_others(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        other_id = await new_topic(broker, port, 1, "other")  # the group never heard of it
        topics = [
            FetchTopic(topic_id, [FetchPartition(0)]) for topic_id in (other_id, session.topic_id)
        ]
        request = ShareFetchRequest(GROUP, "m-1", 0, 20_000, 1, 1 << 20, 500, 500, topics=topics)
        response = await session.connection.send(SHARE_FETCH, request, timeout_ms=30_000)
        by_id = {topic.topic_id: topic.partitions[0] for topic in response.responses}
        assert by_id[other_id].error_code == errors.OffsetNotAvailable.code
        assert by_id[session.topic_id].acquired_records[0].last_offset == 9

    run(tmp_path, scenario)


def test_a_failed_log_does_not_delay_the_others(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        await produce(port, session.topic_id, 1, 10)
        await session.fetch(0, 1, max_records=0)
        broker.parts.topics.log(TOPIC, 0).fail(errors.KafkaStorageError())
        response = await session.fetch(max_wait_ms=20_000)
        assert codes(response) == {0: errors.KafkaStorageError.code, 1: 0}
        assert acquired(response) == {1: [(0, 9, 1)]}

    run(tmp_path, scenario)
