"""An answer for every record, from the sink's rows to the broker's state of the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from sharegroup.spark.sink.writer import ShareStreamWriter
from sharegroup.spark.source.settling.unanswered import Unanswered
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags
from tests.spark.deciding import SINK_FIELDS, Answer, Query, Seen
from tests.spark.readers import until

pytestmark = pytest.mark.process

ACCEPT, RELEASE, REJECT, RENEW = map(Answer, ("accept", "release", "reject", "renew"))
Start = Callable[..., Query]


@pytest.fixture
def acks(tmp_path: Path) -> str:
    return str(tmp_path / "acks")


@pytest.fixture
def start(server: RunningServer, topic: str, acks: str) -> Iterator[Start]:
    # No lock may end because the machine is busy.
    admin.Admin(server.bootstrap).set_group(topic, share_record_lock_duration_ms="600000")
    made: list[Query] = []

    def started(**more: str) -> Query:
        made.append(Query(server, topic, acks, **more))
        return made[-1]

    yield started
    for one in made:
        one.reader.stop()


def crash(query: Query) -> None:
    """Its connections break, nothing is said to anyone, and the system ends its lock."""
    reader = query.reader
    assert reader._loop is not None
    assert reader._driver is not None
    reader._loop.run(reader._driver._cluster.close())
    assert reader._driver._settlement.inbox is not None
    reader._driver._settlement.inbox.close()


def lag(server: RunningServer, topic: str) -> int:
    return sum(one or 0 for one in lags(server, topic))


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def by_rule(record: Seen) -> Answer:
    """One in three is rejected, the others are accepted."""
    return REJECT if int(record.value) % 3 == 0 else ACCEPT


@pytest.mark.parametrize("server", [SharegroupServer], ids=["sharegroup"], indirect=True)
def test_what_went_back_behind_a_release_is_not_processed_again(
    start: Start, server: RunningServer, topic: str
) -> None:
    """With order per key the broker takes back accepts that come with a release of an earlier
    record of their key, without an error; it says which."""
    admin.Admin(server.bootstrap).set_group(topic, share_ordering="key")
    producer = Producer({"bootstrap.servers": server.bootstrap, **admin.SILENT})
    for number in range(6):
        producer.produce(topic, b"%d" % number, key=b"ab"[number % 2 :][:1], partition=0)
    assert producer.flush(30) == 0
    query = start()
    seen: list[Seen] = []
    while len(seen) < 7:
        seen += query.batch(lambda one: RELEASE if one == (b"0", 1) else ACCEPT)
    while lag(server, topic):
        assert query.next() is None, "a record is given to Spark again"
    assert Counter(seen) == Counter([Seen(value, 1) for value in values(6)] + [Seen(b"0", 2)])


def test_only_released_records_are_redelivered(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(30))
    query = start()
    answers = {0: RELEASE, 1: REJECT, 2: Answer("Accept")}
    seen: list[Seen] = []
    while len(seen) < 40:
        seen += query.batch(
            lambda record: answers[int(record.value) % 3] if record.delivery_count == 1 else ACCEPT
        )
    query.next()
    again = {Seen(b"%d" % n, 2) for n in range(0, 30, 3)}
    assert Counter(seen) == Counter([Seen(value, 1) for value in values(30)]) + Counter(again)
    until(lambda: lag(server, topic) == 0)
    report = query.report()
    counted = {word: report[word] for word in ("accepted", "rejected", "released", "redelivered")}
    assert counted == {"accepted": 20, "rejected": 10, "released": 10, "redelivered": 10}


@pytest.mark.parametrize(("default", "left"), [("accept", 0), ("release", 6)])
def test_records_without_an_answer_get_the_default(
    start: Start, server: RunningServer, topic: str, default: str, left: int
) -> None:
    admin.produce(server.bootstrap, topic, values(6))
    query = start(defaultAck=default, prefetch="false")
    seen = 0
    while seen < 6:
        seen += len(query.batch(lambda record: None))
    query.next(limit=1)
    until(lambda: lag(server, topic) == left)


def test_a_delayed_release_holds_the_record_for_its_delay(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(2))
    query = start()
    first = query.batch(lambda record: Answer("release", 1_500))
    while len(first) < 2:
        first += query.batch(lambda record: Answer("release", 1_500))
    assert query.next() is None
    assert query.next() is None  # it is not available to anyone
    again: list[Seen] = []
    while len(again) < 2:
        again += query.batch(lambda record: ACCEPT)
    query.next()
    assert {one.delivery_count for one in again} == {2}
    until(lambda: lag(server, topic) == 0)


def test_a_renewed_record_is_read_again_without_a_new_delivery(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(1))
    query = start()
    rounds = [query.batch(lambda record: RENEW) for _ in range(8)]
    assert rounds == [[Seen(b"0", 1)]] * 8  # more often than deliveries are allowed
    query.batch(lambda record: ACCEPT)
    query.next()
    until(lambda: lag(server, topic) == 0)


def test_a_stopped_query_releases_held_records(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(4))
    query = start()
    seen = 0
    while seen < 4:
        seen += len(query.batch(lambda record: Answer("renew", 3_600_000)))
    query.next()
    query.reader.stop()
    other = start()
    assert other.values(by_rule, 4) == Counter(values(4))
    until(lambda: lag(server, topic) == 0)


def test_an_available_now_run_does_not_wait_for_held_records(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(9))

    def decide(record: Seen) -> Answer:
        return Answer("release", 3_600_000) if int(record.value) % 3 == 0 else ACCEPT

    assert start().available_now(decide) == Counter(values(9))
    until(lambda: lag(server, topic) == 3)


def test_answers_survive_the_process_that_should_have_sent_them(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(30))
    one = start()
    seen = Counter(row.value for row in one.batch(by_rule))
    crash(one)  # Spark has committed the batch, and nobody has told the broker
    two = start()
    two.offset = one.offset
    while seen.total() < 30:
        seen.update(row.value for row in two.batch(by_rule))
    two.next()
    assert seen == Counter(values(30))
    until(lambda: lag(server, topic) == 0)


def test_the_answer_of_a_batch_does_not_come_into_the_next_one_by_a_restart(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(1))
    one = start(defaultAck="accept")
    one.batch(lambda record: RELEASE)
    end = one.wait()  # the batch before is settled, and its record is in this one
    crash(one)
    two = start(defaultAck="accept")
    two.offset = one.offset
    assert two.run(end, lambda record: None) == [Seen(b"0", 2)]
    two.offset = end
    assert two.next() is None, "a record is given to Spark again"
    report = two.report()
    assert (report["accepted"], report["released"]) == (1, 0)
    until(lambda: lag(server, topic) == 0)


def test_an_attempt_that_failed_answers_no_record_of_the_next_one(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(2), partition=0)
    one = start()
    end = one.wait(limit=2)
    one.run(end, lambda record: ACCEPT)
    crash(one)  # Spark has not committed the batch, it runs again
    two = start()
    two.offset = one.offset
    seen = two.run(end, lambda record: ACCEPT if record.value == b"0" else None)
    assert Counter(one.value for one in seen) == Counter(values(2))
    two.reader.partitions(two.offset, end)  # the plan of the same attempt is looked at once more
    two.offset = end
    assert two.available_now(lambda record: ACCEPT) == Counter([b"1"])
    until(lambda: lag(server, topic) == 0)
    counted = two.report()
    assert (counted["accepted"], counted["released"], counted["undecided"]) == (2, 1, 1)


def test_decisions_about_other_records_have_no_effect_and_are_counted(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(3), partition=0)
    query = start()
    end = query.wait(limit=1)
    query.run(end, lambda record: ACCEPT)
    moved = {**end, "r": {key: {"0": [[1, 2, 1]]} for key in end["r"]}}
    query.run(moved, lambda record: REJECT)  # rows about records that are not in this batch
    query.offset = end
    left = query.values(lambda record: ACCEPT, 2)
    assert left.total() == 2
    assert query.report()["unmatched"] == 2


class CheckpointedQuery:
    """A query whose sink knows the checkpoint, as in Spark."""

    def __init__(self, query: Query, checkpoint: Path, acks: str) -> None:
        self.query = query
        self.commits = checkpoint / "commits"
        for folder in (self.commits, checkpoint / "offsets"):
            folder.mkdir(parents=True)
        (checkpoint / "offsets" / "0").write_text("v1")
        options = {"ackLocation": acks, "checkpointlocation": checkpoint.as_uri()}
        query.sink = ShareStreamWriter(options, SINK_FIELDS)

    def commit(self) -> None:
        """What Spark does after the sink."""
        (self.commits / "0").write_text("v1")


@pytest.fixture
def checkpointed(start: Start, tmp_path: Path, acks: str) -> CheckpointedQuery:
    return CheckpointedQuery(start(), tmp_path / "checkpoint", acks)


def test_a_committed_batch_is_settled_although_spark_does_not_call(
    checkpointed: CheckpointedQuery, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(6), partition=0)
    checkpointed.query.batch(by_rule, limit=6)
    checkpointed.commit()
    until(lambda: lag(server, topic) == 0)
    assert checkpointed.query.next() is None
    report = checkpointed.query.report()
    assert (report["accepted"], report["rejected"]) == (4, 2)


def test_a_batch_whose_answers_cannot_be_read_is_settled_by_the_next_call(
    start: Start, server: RunningServer, topic: str, acks: str
) -> None:
    admin.produce(server.bootstrap, topic, values(3), partition=0)
    query = start()
    query.batch(by_rule)
    query.next()
    (settled,) = Path(acks).glob("settled-*.json")
    settled.unlink()
    settled.mkdir()  # deleting it as a file now fails
    admin.produce(server.bootstrap, topic, values(3), partition=0)
    query.batch(by_rule)
    query.reader.commit(query.offset)  # logs the error, as Spark expects of a commit
    assert lag(server, topic) == 3
    settled.rmdir()
    assert query.next() is None
    until(lambda: lag(server, topic) == 0)
    report = query.report()
    assert (report["accepted"], report["rejected"]) == (4, 2)


@pytest.mark.parametrize("committed", [True, False])
def test_a_query_that_stops_settles_what_spark_has_committed(
    checkpointed: CheckpointedQuery, server: RunningServer, topic: str, committed: bool
) -> None:
    admin.produce(server.bootstrap, topic, values(6), partition=0)
    checkpointed.query.batch(by_rule, limit=6)
    if committed:
        checkpointed.commit()
    checkpointed.query.reader.stop()  # Trigger.Once: Spark has not called since
    until(lambda: lag(server, topic) == (0 if committed else 6))


def test_records_held_by_an_earlier_process_are_redelivered_at_once(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(4), partition=0)
    one = start()
    one.batch(lambda record: Answer(("release", "renew")[int(record.value) % 2], 3_600_000))
    one.next()
    one.reader.stop()
    two = start()
    two.offset = one.offset
    # Released ones rest at our broker; on Apache Kafka the query held them.
    resting = 2 if isinstance(server, SharegroupServer) else 0
    held = values(4)[1::2] if resting else values(4)
    assert two.available_now(by_rule) == Counter(held)
    until(lambda: lag(server, topic) == resting)


def test_answers_that_change_with_every_record(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(20_000))
    query = start()
    assert query.values(by_rule, 20_000) == Counter(values(20_000))
    until(lambda: lag(server, topic) == 0)
    report = query.report()
    assert (report["accepted"], report["rejected"]) == (13_333, 6_667)
    assert (report["unconfirmed"], report["redelivered"]) == (0, 0)


def test_a_batch_in_which_no_record_has_an_answer_fails_the_query(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(6), partition=0)
    one = start()
    first = one.batch(lambda record: None)
    with pytest.raises(
        Unanswered, match=f"none of the {len(first)} records .*{topic}-0 offsets 0 .*defaultAck"
    ):
        one.next()
    one.reader.stop()
    two = start()  # the program was put right, and goes on with its checkpoint
    two.offset = one.offset
    assert two.available_now(lambda record: ACCEPT) == Counter(values(6))
    until(lambda: lag(server, topic) == 0)


def test_answers_for_other_records_do_not_count(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(6), partition=0)
    query = start()
    end = query.wait(limit=3)
    moved = {**end, "r": {key: {"0": [[3, 5, 1]]} for key in end["r"]}}
    query.run(moved, lambda record: REJECT)
    query.offset = end
    with pytest.raises(Unanswered, match=f"for other records .{topic}-0 offsets 3 to 5.: pass on"):
        query.next()
    assert lag(server, topic) == 6


def test_a_batch_without_rows_needs_no_answer(
    start: Start, server: RunningServer, topic: str
) -> None:
    admin.produce(server.bootstrap, topic, values(6), partition=0)
    query = start(failOnDataLoss="false")
    end = query.wait(limit=6)
    client = admin.Admin(server.bootstrap).client
    for deleted in client.delete_records([TopicPartition(topic, 0, 6)]).values():
        deleted.result(admin.ADMIN_SECONDS)
    assert query.run(end, lambda record: ACCEPT) == []
    query.offset = end
    assert query.next() is None
