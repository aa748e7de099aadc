"""The reader as Spark calls it, without Spark: what happens to acknowledgements and locks."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from sharegroup.arrow.schema import COLUMNS, column_names
from sharegroup.client.core.share_session import FetchLimits
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.source import sigterm
from sharegroup.spark.source.holding.ledger import Ledger, LedgerStatistics
from sharegroup.sync import Admin
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options

pytestmark = pytest.mark.process

FIELDS = [(name, COLUMNS[name]) for name in column_names(include_headers=False)]
ALL = ReadAllAvailable()
Reader = Callable[..., ShareStreamReader]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    options = "group.share.min.record.lock.duration.ms=1000"
    with SharegroupServer(tmp_path_factory.mktemp("broker"), options) as running:
        yield running


@pytest.fixture
def topic(broker: SharegroupServer, name: str) -> str:
    admin.Admin(broker.bootstrap).create_topic(name, partitions=2)
    return name


@pytest.fixture
def reader(broker: SharegroupServer, topic: str) -> Iterator[Reader]:
    made: list[ShareStreamReader] = []

    def make(**more: str) -> ShareStreamReader:
        options = source_options(broker, topic, pollTimeoutMs="50", **more)
        made.append(ShareStreamReader(options, FIELDS))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def crash(reader: ShareStreamReader) -> None:
    """Its connections break, and nothing is said to anyone."""
    assert reader._loop is not None
    assert reader._driver is not None
    reader._loop.run(reader._driver._cluster.close())


def rows(reader: ShareStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for task in reader.partitions(start, end):
        for batch in reader.read(task):
            found.update(batch.column("value").to_pylist())
    return found


def told(reader: ShareStreamReader) -> dict[str, Any]:
    """What the query's progress says of the source."""
    report = reader.reportLatestOffset()
    assert report is not None
    return report


def next_batch(
    reader: ShareStreamReader, start: dict[str, Any], limit: Any = ALL
) -> dict[str, Any]:
    """The next offset that is not ``start``; a few calls may find nothing."""
    for _ in range(200):
        end = reader.latestOffset(start, limit)
        if end != start:
            return end
    raise AssertionError("no batch came")


def test_a_batch_is_settled_when_the_next_offset_is_asked_for(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"a", b"b"])
    one = reader()
    first = next_batch(one, one.initialOffset())
    assert rows(one, one.initialOffset(), first) == Counter([b"a", b"b"])
    assert set(lags(broker, topic)) == {None}, "nothing is answered for yet"
    assert one.latestOffset(first, ALL) is first
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0


@pytest.mark.parametrize("call", ["latestOffset", "commit"])
def test_records_that_come_again_while_their_batch_is_settled_are_not_processed_again(
    reader: Reader, broker: SharegroupServer, topic: str, call: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    one = reader(prefetch="false")
    first = next_batch(one, one.initialOffset())
    assert one._loop is not None
    one._loop.run(_fetch_is_under_way(one))
    if call == "commit":
        one.commit(first)
    assert [one.latestOffset(first, ALL) for _ in range(3)] == [first] * 3
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0
    assert told(one)["unconfirmed"] == 0


async def _fetch_is_under_way(reader: ShareStreamReader) -> None:
    """The locks of the batch are lost. A fetch brings its records again, after its caller has given
    up waiting, as it does where the broker is slow."""
    driver = reader._driver
    assert driver is not None
    assert driver._membership is not None
    member, ledger = driver._membership.member, driver._settlement.ledger
    held = ledger.locked().items()
    await member.release((partition, *one) for partition, ranges in held for one in ranges)
    await member._start_rounds(FetchLimits(max_records=100, max_bytes=1 << 20, max_wait_ms=0), 0)
    await asyncio.wait(member._rounds._tasks.values())


def test_a_limit_is_kept_exactly(reader: Reader, broker: SharegroupServer, topic: str) -> None:
    values = [b"%d" % n for n in range(500)]
    admin.produce(broker.bootstrap, topic, values)
    one = reader()
    start, seen, sizes = one.initialOffset(), Counter[bytes](), []
    while sum(sizes) < 500:
        end = next_batch(one, start, ReadMaxRows(120))
        batch = rows(one, start, end)
        sizes.append(batch.total())
        seen += batch
        start = end
    assert seen == Counter(values)
    assert max(sizes) == 120


def test_a_lost_acknowledgement_is_repeated_and_nothing_is_read_twice(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"old"] * 10)
    one = reader()
    first = next_batch(one, one.initialOffset())
    assert rows(one, one.initialOffset(), first).total() == 10
    crash(one)  # Spark has committed the batch, the broker has not heard of it
    admin.produce(broker.bootstrap, topic, [b"new"] * 5)
    two = reader()
    seen, start = Counter[bytes](), first
    while seen.total() < 5:
        end = next_batch(two, start)
        assert end["m"] == first["m"]
        seen += rows(two, start, end)
        start = end
    assert seen == Counter({b"new": 5})
    assert two.latestOffset(start, ALL) is start
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0
    assert told(two)["unconfirmed"] == 0


def test_a_query_of_a_group_that_was_reset_begins_with_a_new_checkpoint(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    """With the old one it takes the records of its last batch for records whose acknowledgement was
    lost, as docs/groups.md says."""
    admin.produce(broker.bootstrap, topic, [b"a", b"b"], partition=0)
    one = reader()
    first = next_batch(one, one.initialOffset())
    assert rows(one, one.initialOffset(), first) == Counter([b"a", b"b"])
    assert one.latestOffset(first, ALL) is first

    def reset() -> None:
        beginning = {TopicPartition(topic, 0): 0}
        with Admin(broker.bootstrap) as client:
            assert client.alter_share_group_offsets(topic, beginning) == dict.fromkeys(beginning)

    one.stop()
    reset()
    old = reader()
    while sum(lag or 0 for lag in lags(broker, topic)):
        assert old.latestOffset(first, ALL) is first, "the last batch is given to Spark again"
    old.stop()
    reset()
    new = reader()
    again = next_batch(new, new.initialOffset())
    assert rows(new, new.initialOffset(), again) == Counter([b"a", b"b"])


def test_a_replay_needs_nothing_but_the_offset(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"%d" % n for n in range(50)])
    one = reader()
    start = one.initialOffset()
    end = next_batch(one, start)
    before = rows(one, start, end)
    crash(one)
    two = reader()
    assert rows(two, start, end) == before
    assert two.latestOffset(end, ALL) is end
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0


def test_locks_are_renewed_while_a_batch_runs(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.Admin(broker.bootstrap).set_group(topic, share_record_lock_duration_ms="1000")
    admin.produce(broker.bootstrap, topic, [b"slow"] * 4)
    one = reader()
    first = next_batch(one, one.initialOffset())
    other = ShareStreamReader(source_options(broker, topic, pollTimeoutMs="1500"), FIELDS)
    try:
        for _ in range(2):  # three lock durations pass
            assert other.latestOffset(other.initialOffset(), ALL) == other.initialOffset()
    finally:
        other.stop()
    assert told(one)["renewed"] >= 8
    one.commit(first)
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0


def test_stopping_releases_records_that_spark_never_saw(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"%d" % n for n in range(100)])
    one = reader()
    first = next_batch(one, one.initialOffset(), ReadMaxRows(10))
    one.commit(first)
    one.stop()
    two = reader()
    seen, start = Counter[bytes](), first
    while seen.total() < 90:
        end = next_batch(two, start)
        seen += rows(two, start, end)
        start = end
    assert max(seen.values()) == 1


@pytest.fixture
def no_source_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sources of other tests in this process, which crashed there, do not count."""
    monkeypatch.setattr(sigterm, "_running", set())
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("no_source_runs")
def test_the_last_source_restores_the_sigterm_handler(reader: Reader, topic: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    one, two = reader(), reader()
    for each in (one, two):
        each.latestOffset(each.initialOffset(), ALL)
    assert signal.getsignal(signal.SIGTERM) != before
    one.stop()
    assert signal.getsignal(signal.SIGTERM) != before  # the other one still runs
    two.stop()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_late_commit_does_not_affect_the_new_batch(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    admin.produce(broker.bootstrap, topic, [b"%d" % n for n in range(20)])
    one = reader()
    first = next_batch(one, one.initialOffset(), ReadMaxRows(10))
    next_batch(one, first, ReadMaxRows(10))
    one.commit(first)  # Spark calls it when the next batch is in its log
    assert told(one)["inFlight"] == 10


def test_a_missing_topic(reader: Reader) -> None:
    one = reader(subscribe="nowhere")
    with pytest.raises(ConfigError, match="there is no topic 'nowhere'"):
        one.latestOffset(one.initialOffset(), ALL)


def test_a_copy_of_the_checkpoint_beside_the_original_becomes_a_member_of_its_own(
    reader: Reader, broker: SharegroupServer, topic: str
) -> None:
    """Both go on from one offset, by turns: only its batch, which both have, is processed twice."""
    admin.Admin(broker.bootstrap).set_group(topic, share_record_lock_duration_ms="1000")
    admin.produce(broker.bootstrap, topic, [b"%d" % n for n in range(200)])
    original = reader()
    start = next_batch(original, original.initialOffset(), ReadMaxRows(20))
    shared = rows(original, original.initialOffset(), start)
    copy = reader()
    assert rows(copy, copy.initialOffset(), start) == shared
    seen = shared + shared
    at = {copy: start, original: start}

    def go_on(one: ShareStreamReader) -> None:
        end = one.latestOffset(at[one], ReadMaxRows(20))
        if end != at[one]:
            seen.update(rows(one, at[one], end))
            at[one] = end

    for _ in range(200):
        if sum(lag or 0 for lag in lags(broker, topic)) == 0 and len(seen) >= 200:
            break
        for one in at:
            go_on(one)
    assert {value for value, times in seen.items() if times > 1} == {*shared}
    assert len(seen) == 200
    ids = {one._driver._membership.member.member_id for one in at}  # type: ignore[union-attr]
    assert len(ids) == 2
    assert start["m"] in ids, "one of them keeps its place"


def test_the_report_is_made_on_the_loop_that_changes_the_ledger(
    broker: SharegroupServer, topic: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere the ledger could change under it, while the next batch is acquired."""
    one, ledger_statistics, threads = reader(), Ledger.statistics, set[str]()

    def noting_its_thread(ledger: Ledger) -> LedgerStatistics:
        threads.add(threading.current_thread().name)
        return ledger_statistics(ledger)

    monkeypatch.setattr(Ledger, "statistics", noting_its_thread)
    one.latestOffset(one.initialOffset(), ALL)
    report = one.reportLatestOffset()
    assert report is not None
    assert report["partitions"] == 2
    assert threads == {"kafka-share"}
