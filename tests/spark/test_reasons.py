"""What the sink says beside its answers: why a record failed, and for how long it is to rest. Both
are the broker's from the moment at which the batch is settled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from sharegroup import sync
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model import limits
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.share.pauses import STEP_MAX_MS
from sharegroup.share.record_state import RecordState
from sharegroup.spark.ack_files import AckOutbox, Inbox
from sharegroup.spark.ranges import Decision, Reason
from sharegroup.spark.sink import reasons as sink_reasons
from sharegroup.spark.sink.decisions import decisions_in, merged
from sharegroup.spark.source.holding import acknowledging
from sharegroup.spark.source.holding.acknowledging import Pause, pauses_of, portions
from sharegroup.spark.source.offsets import Done
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.deciding import Answer, Query, Seen
from tests.spark.readers import until
from tests.spark.test_acknowledging import ACCEPT, crash, lag, values

JOBS = TopicPartition("jobs", 0)
KEY = TopicIdPartition(UUID(int=1), 0)
HOUR_MS = 3_600_000
HERE = pytest.mark.parametrize("server", [SharegroupServer], ids=["sharegroup"], indirect=True)


def batch(*rows: tuple[int, str, str | None]) -> pa.RecordBatch:
    """Offset, answer and reason of each row."""
    offsets, acks, said = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "topic": pa.array(["jobs"] * len(rows)),
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "ack": pa.array(acks),
            "reason": pa.array(said, pa.string()),
        }
    )


# --- from rows to ranges --------------------------------------------------------------------------


def test_neighbours_with_one_reason_share_a_range() -> None:
    found = decisions_in(
        batch(
            (0, "reject", "bad"),
            (2, "release", "later"),
            (1, "reject", "bad"),
            (3, "reject", None),
            (4, "reject", ""),
            (5, "accept", "fine"),
            (6, "renew", "not yet"),
        )
    )
    assert found.reasons == {JOBS: [Reason(0, 1, "bad"), Reason(2, 2, "later")]}


def test_a_reason_that_is_no_utf8_is_made_readable() -> None:
    rows = batch((0, "reject", None))
    said = pa.array([b"bad: \xff!"]).view(pa.string())  # as CAST(value AS STRING) makes it
    found = decisions_in(rows.set_column(4, "reason", said))
    assert found.reasons == {JOBS: [Reason(0, 0, "bad: \N{REPLACEMENT CHARACTER}!")]}


def test_of_several_reasons_for_one_record_the_first_is_kept() -> None:
    one = decisions_in(batch((0, "reject", "first"), (0, "reject", "second")))
    two = decisions_in(batch((0, "reject", "third"), (1, "reject", "other")))
    assert one.reasons == {JOBS: [Reason(0, 0, "first")]}
    both = merged([one, two])
    assert both.reasons == {JOBS: [Reason(0, 0, "first"), Reason(1, 1, "other")]}
    assert both.records == 2


def test_long_and_many_reasons_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    most = limits.DEATH_REASON_LENGTH_MAX
    [cut] = decisions_in(batch((0, "reject", "x" * (most + 1)))).reasons[JOBS]
    assert cut.text == "x" * most
    monkeypatch.setattr(sink_reasons, "SINK_REASON_CHARACTERS_MAX", 10)
    enough = decisions_in(batch((0, "reject", "abcde"), (1, "reject", "fghij")))
    assert [one.text for one in enough.reasons[JOBS]] == ["abcde", "fghij"]
    more = merged([enough, decisions_in(batch((2, "reject", "klm")))])
    assert [one.text for one in more.reasons[JOBS]] == ["abc", "fgh", "klm"]


def test_the_reasons_of_a_later_file_replace_those_of_an_earlier_one(tmp_path: Path) -> None:
    source = Inbox(str(tmp_path), "group", AckType.RELEASE)
    asyncio.run(source.open(["jobs"]))
    outbox = AckOutbox(str(tmp_path))
    outbox.put({JOBS: [[0, 5, 3, 0]]}, reasons={JOBS: [Reason(0, 5, "old")]})
    outbox.put({JOBS: [[2, 3, 3, 0]]}, reasons={JOBS: [Reason(2, 2, "new")]})
    assert source.take({KEY.topic_id: "jobs"}, 1)[KEY][1] == Decision(2, 3, 3)
    assert source.reasons == {KEY: [Reason(0, 1, "old"), Reason(2, 2, "new"), Reason(4, 5, "old")]}
    assert source.take({KEY.topic_id: "jobs"}, 2) == {}
    assert source.reasons == {}


# --- to the broker --------------------------------------------------------------------------------


def test_notes_go_in_requests_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [Done(0, 9, AckType.REJECT), Done(10, 10, AckType.ACCEPT)]
    assert portions(ranges, (), ()) == [ranges]
    monkeypatch.setattr(acknowledging, "NOTES_BYTES", 2 * acknowledging.NOTE_BYTES + 6)
    said = [Reason(n, n, "abc") for n in range(2)]
    assert portions(ranges, said, ()) == [ranges]  # just so many
    said = [Reason(n, n, "abc") for n in (0, 1, 4)]
    assert portions(ranges, said, [Pause(20, 30, 5)]) == [
        [Done(0, 3, AckType.REJECT)],
        [Done(4, 9, AckType.REJECT), Done(10, 10, AckType.ACCEPT)],
    ]
    huge = [Reason(0, 0, "x" * 1_000), Reason(1, 1, "y" * 1_000)]
    assert portions(ranges[:1], huge, ()) == [
        [Done(0, 0, AckType.REJECT)],
        [Done(1, 9, AckType.REJECT)],
    ]


def test_the_broker_pauses_up_to_its_limit() -> None:
    said = [
        Decision(0, 0, AckType.RELEASE, limits.PAUSE_MS_MAX),
        Decision(1, 1, AckType.RELEASE, limits.PAUSE_MS_MAX + 1),
        Decision(2, 2, AckType.RENEW, 5),
        Decision(3, 3, AckType.RELEASE, 0),
        Decision(4, 4, AckType.REJECT),
    ]
    assert pauses_of(said, limits.PAUSE_MS_MAX) == [Pause(0, 0, limits.PAUSE_MS_MAX)]
    assert pauses_of(said, 0) == []


@pytest.fixture
def acks(tmp_path: Path) -> str:
    return str(tmp_path / "acks")


@pytest.fixture
def queries(server: RunningServer, topic: str, acks: str) -> Iterator[list[Query]]:
    """Two queries of one checkpoint; the second is for when the first has died."""
    admin.Admin(server.bootstrap).set_group(topic, share_record_lock_duration_ms="600000")
    made = [Query(server, topic, acks), Query(server, topic, acks)]
    yield made
    for one in made:
        one.reader.stop()


@HERE
def test_the_reason_stands_in_the_letter_although_the_driver_dies(
    queries: list[Query], server: RunningServer, topic: str
) -> None:
    letters = f"dlq.{topic}"
    with sync.Admin(server.bootstrap) as control:
        control.create_topics(letters, configs={"errors.deadletterqueue.group.enable": "true"})
        control.alter_configs("group", topic, {"errors.deadletterqueue.topic.name": letters})
        admin.produce(server.bootstrap, topic, values(30), partition=0)
        one, two = queries

        def decide(record: Seen) -> Answer:
            number = int(record.value)
            return Answer("reject", None, f"no. {number}" if number % 2 else None)

        seen = Counter(row.value for row in one.batch(decide))
        crash(one)  # nobody has told the broker
        two.offset = one.offset
        while seen.total() < 30:
            seen.update(row.value for row in two.batch(decide))
        two.next()
        until(lambda: lag(server, topic) == 0)
        until(lambda: len(control.list_dead_letters(topic)) == 30)
        found = {one.offset: one.message for one in control.list_dead_letters(topic)}
    assert [found[n] for n in range(1, 30, 2)] == [f"no. {n}" for n in range(1, 30, 2)]
    assert all("no." not in (found[n] or "") for n in range(0, 30, 2))


@HERE
def test_a_driver_that_dies_loses_no_pause(
    queries: list[Query], server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(4), partition=0)
    one, two = queries

    def decide(record: Seen) -> Answer:
        return Answer("release", HOUR_MS) if int(record.value) else ACCEPT

    one.values(decide, 4)  # and settled
    crash(one)
    two.offset = one.offset
    assert two.available_now(decide) == Counter()  # it does not wait for pauses
    with sync.Admin(server.bootstrap) as control:
        [records] = control.describe_record_states(topic, [TopicPartition(topic, 0)]).values()
    [resting] = records.ranges
    assert (resting.first, resting.last, resting.state) == (1, 3, RecordState.DELAYED)
    assert 0 < (resting.lock_ms or 0) <= HOUR_MS + STEP_MAX_MS
