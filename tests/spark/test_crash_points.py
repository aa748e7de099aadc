"""Disasters between any two steps of Spark's engine: what the query promises holds at each."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from sharegroup.arrow.schema import COLUMNS, column_names
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.ack_files import AckOutbox
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.folder_lock import FolderTaken
from sharegroup.spark.source.offsets import from_json
from sharegroup.spark.source.sigterm import source_stopping
from tests.apache_kafka.broker import KafkaBroker
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.crash.broker_state import Place, group_state
from tests.spark.crash.checker import Row, judged
from tests.spark.crash.engine import Checkpoint, ConcurrentUpdate, Crashed, Engine, Point, Rows
from tests.spark.crash.lane import ANCHOR_MS, BATCHES, Lane, Mode

pytestmark = pytest.mark.process

FIELDS = [(name, COLUMNS[name]) for name in column_names(include_headers=False)]
PARTITIONS = 2
PER_BATCH = 5
RECORDS = BATCHES * PER_BATCH
PLACES = [(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)]
LIMIT = 15
TRIGGERS_MAX = 400
SEEDS = 6
DISASTERS = 4
LOCK_MS = 1_000
FROZEN_SECONDS = 2.0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ],
)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    options = (
        f"group.share.record.lock.duration.ms={LOCK_MS}",
        "group.share.min.record.lock.duration.ms=1000",
        "group.share.session.timeout.ms=2000",
        "group.share.min.session.timeout.ms=2000",
        "group.share.heartbeat.interval.ms=500",
        "group.share.min.heartbeat.interval.ms=500",
    )
    with request.param(tmp_path_factory.mktemp("broker"), *options) as running:
        yield running


@pytest.fixture
def topic(broker: RunningServer, name: str) -> str:
    admin.Admin(broker.bootstrap).create_topic(name, partitions=PARTITIONS)
    admin.produce(broker.bootstrap, name, [b"%d" % n for n in range(RECORDS)])
    return name


def number(place: Place) -> int:
    """What is produced there: numbers go round the partitions in turn."""
    partition, offset = place
    return offset * PARTITIONS + partition


class Query:
    """A query that is started again and again from one checkpoint, and its sink.

    Attributes:
        answers_failures_only: what it does not answer is accepted.
    """

    def __init__(self, broker: RunningServer, topic: str, mode: Mode, acks: Path) -> None:
        self.broker = broker
        self.topic = topic
        self.lane = Lane(seed=0, mode=mode, partitions=PARTITIONS, per_batch=PER_BATCH, strikes=())
        self.checkpoint = Checkpoint()
        self.sink: dict[int, Rows] = {}
        self.readers: list[ShareStreamReader] = []
        self.answers_failures_only = False
        self._acks = acks
        self._claims = acks.with_name("claims")
        self._acks_copy = acks.with_name("acks-copy")

    def start(self, passed: Callable[[int, Point], None] = lambda batch, point: None) -> Engine:
        options = source_options(self.broker, self.topic, pollTimeoutMs="50")
        if self.lane.mode.is_answered:
            options |= {"ackLocation": str(self._acks)}
        if self.answers_failures_only:
            options |= {"defaultAck": "accept"}
        if self.lane.mode is Mode.CLAIM:
            options |= {"claimLocation": str(self._claims)}
        self.readers.append(ShareStreamReader(options, FIELDS))
        return Engine(self.readers[-1], self.checkpoint, self.write, LIMIT, passed)

    def finish(self, engine: Engine) -> None:
        """Run until the queue is empty."""
        for _ in range(TRIGGERS_MAX):
            if not engine.step() and lags(self.broker, self.topic) == self.lane.last_lags:
                return
        raise AssertionError(f"not empty: {lags(self.broker, self.topic)}")

    def write(self, batch: int, rows: Rows) -> None:
        """A batch that runs again must be the same; then the answers are handed over."""
        assert self.sink.setdefault(batch, rows) == rows
        if self.lane.mode.is_answered:
            AckOutbox(str(self._acks)).put(self._answers(rows))

    def _answers(self, rows: Rows) -> dict[TopicPartition, list[list[int]]]:
        answers: dict[TopicPartition, list[list[int]]] = {}
        for partition, offset, count in rows:
            this = number((partition, offset))
            word = AckType[self.lane.decision(this, count).upper()]
            if self.answers_failures_only and word == AckType.ACCEPT:
                continue
            delay_ms = ANCHOR_MS if this < self.lane.anchors else 0
            where = answers.setdefault(TopicPartition(self.topic, partition), [])
            where.append([offset, offset, word, delay_ms])
        return answers

    def copy_acks(self) -> None:
        """They belong to the checkpoint, and are copied and restored with it."""
        if self._acks.exists():
            shutil.copytree(self._acks, self._acks_copy)

    def restore_acks(self) -> None:
        if self._acks.exists():
            shutil.rmtree(self._acks)
            self._acks_copy.rename(self._acks)

    def results(self) -> list[Row]:
        """All that was processed, and how it was answered."""
        return [
            Row(number(row[:2]), *row, self.lane.decision(number(row[:2]), row[2]))
            for rows in self.sink.values()
            for row in rows
        ]

    def wrong(self) -> list[str]:
        """What the checker of the crash test finds."""
        log = {place: number(place) for place in PLACES}
        state = group_state(self.broker.bootstrap, self.topic, self.topic)
        return judged(self.lane, log, self.results(), state)

    # --- disasters --------------------------------------------------------------------------------

    def dies(self) -> None:
        """As by kill -9: the connections break and nothing is said."""
        reader = self.readers.pop()
        assert reader._driver is not None
        assert reader._loop is not None
        reader._loop.run(_end_all(reader))
        reader._driver._same_group.close()  # the system ends its names
        if reader._driver._settlement.inbox is not None:
            reader._driver._settlement.inbox.close()  # the system ends its lock
        reader._loop.close()
        with source_stopping(reader):  # here the process lives on, and wants its SIGTERM back
            raise Crashed

    def stops(self) -> None:
        """As by query.stop()."""
        self.readers.pop().stop()
        raise Crashed

    def restarts_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def dies_with_broker(self) -> None:
        self.restarts_broker()
        self.dies()

    def freezes(self) -> None:
        """The source stands still until its locks have run out."""
        loop = self.readers[-1]._loop
        assert loop is not None
        loop.run(_stand_still())


async def _end_all(reader: ShareStreamReader) -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    assert reader._driver is not None
    if reader._driver._settlement.claims is not None:
        reader._driver._settlement.claims.close()  # as the end of a process does
    await reader._driver._cluster.close()


async def _stand_still() -> None:
    threading.Event().wait(FROZEN_SECONDS)


@pytest.fixture(
    params=[Mode.IMPLICIT, Mode.FOREACH, Mode.CLAIM], ids=["implicit", "explicit", "claim"]
)
def query(
    request: pytest.FixtureRequest, broker: RunningServer, topic: str, tmp_path: Path
) -> Iterator[Query]:
    made = Query(broker, topic, request.param, tmp_path / "acks")
    yield made
    for reader in made.readers:
        reader.stop()


class Disaster(StrEnum):
    DIES = "dies"
    STOPS = "stops"
    FREEZES = "freezes"
    RESTARTS_BROKER = "restarts_broker"
    DIES_WITH_BROKER = "dies_with_broker"


def once(disaster: Callable[[], None], at: tuple[int, Point]) -> Callable[[int, Point], None]:
    """The disaster when the engine comes to that point for the first time."""
    left = [at]

    def passed(batch: int, point: Point) -> None:
        if left == [(batch, point)]:
            left.clear()
            disaster()

    return passed


def run_with(query: Query, disaster: Disaster, at: tuple[int, Point]) -> None:
    if query.lane.mode is not Mode.IMPLICIT:  # a batch without records opens the query
        at = at[0] + 1, at[1]
    passed = once(getattr(query, disaster), at)
    try:
        query.finish(query.start(passed))
    except Crashed:
        query.finish(query.start())


explicit = pytest.mark.parametrize("query", [Mode.FOREACH], ids=["explicit"], indirect=True)
not_implicit = pytest.mark.parametrize(
    "query", [Mode.FOREACH, Mode.CLAIM], ids=["explicit", "claim"], indirect=True
)
not_claimed = pytest.mark.parametrize(
    "query", [Mode.IMPLICIT, Mode.FOREACH], ids=["implicit", "explicit"], indirect=True
)
ours = pytest.mark.parametrize("broker", [SharegroupServer], ids=["sharegroup"], indirect=True)
points = pytest.mark.parametrize("point", Point, ids=lambda point: point.name.lower())


@points
def test_a_crash_at_any_point_of_a_batch(query: Query, point: Point) -> None:
    run_with(query, Disaster.DIES, (1, point))
    assert query.wrong() == []


@ours  # Apache Kafka takes several seconds for a start
@not_implicit
@points
@pytest.mark.parametrize("disaster", list(Disaster)[1:], ids=str)
def test_other_disasters_at_any_point(query: Query, disaster: Disaster, point: Point) -> None:
    run_with(query, disaster, (1, point))
    assert query.wrong() == []


@ours
@not_implicit
@points
def test_a_crash_at_any_point_of_the_first_batch(query: Query, point: Point) -> None:
    run_with(query, Disaster.DIES, (0, point))
    assert query.wrong() == []


@ours
@not_implicit
@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_disaster_after_another(query: Query, seed: int) -> None:
    chance = random.Random(seed)
    left = [chance.choice(list(Disaster)) for _ in range(DISASTERS)]

    def passed(batch: int, point: Point) -> None:
        if left and chance.random() < len(left) / (2 * len(Point)):
            getattr(query, left.pop())()

    while True:
        try:
            query.finish(query.start(passed))
        except Crashed:
            continue
        break
    assert query.wrong() == []


@ours
@explicit
@points
def test_a_crash_at_any_point_of_a_query_that_answers_failures_only(
    query: Query, point: Point
) -> None:
    query.answers_failures_only = True
    first_again = RECORDS // LIMIT  # this batch has what the one before released
    run_with(query, Disaster.DIES, (first_again, point))
    assert query.wrong() == []


@ours
@explicit
def test_a_commit_that_is_noticed_late_settles_no_other_batch(query: Query) -> None:
    def late(batch: int, point: Point) -> None:
        if (batch, point) == (2, Point.PLANNED):
            committed = from_json(query.checkpoint.offsets[1])
            reader = query.readers[-1]
            assert reader._driver is not None
            assert reader._loop is not None
            reader._loop.run(reader._driver._settlement.settle(committed))

    query.finish(query.start(late))
    assert query.wrong() == []


@not_claimed  # what was claimed since the copy was made is lost, see docs/delivery.md
def test_a_checkpoint_restored_from_an_old_copy(query: Query) -> None:
    engine = query.start()
    next_batch(engine)
    old = query.checkpoint.copied()
    query.copy_acks()
    next_batch(engine)
    next_batch(engine)
    with pytest.raises(Crashed):
        query.dies()
    last = {row[:2] for row in query.sink.pop(2)}  # the broker has not been told of it yet
    before, query.sink = query.sink, {}  # a new place, since batch ids begin again
    query.checkpoint = old
    query.restore_acks()
    query.finish(query.start())
    assert last <= {row[:2] for rows in query.sink.values() for row in rows}
    query.sink |= {-1 - batch: rows for batch, rows in before.items()}
    assert query.wrong() == []


@not_claimed  # the second one is refused, see test_claiming.py
def test_two_queries_on_one_checkpoint(query: Query) -> None:
    one, other = query.start(), query.start()
    next_batch(one)
    if query.lane.mode is not Mode.IMPLICIT:  # the second one does not come so far
        with pytest.raises(FolderTaken):
            next_batch(other)
        query.finish(one)
        assert query.wrong() == []
        return
    next_batch(other)  # both know batch 0 as the newest; the second one writes batch 1
    # The first is another member by now. On Kafka the other one may hold all that is left, and
    # renews it; then the first goes on without records, and has nothing to be refused for.
    assert is_refused(one) or not isinstance(query.broker, SharegroupServer)
    query.readers[0].stop()
    query.finish(other)
    assert query.wrong() == []


def next_batch(engine: Engine) -> None:
    assert any(engine.step() for _ in range(TRIGGERS_MAX))


def is_refused(engine: Engine) -> bool:
    try:
        for _ in range(TRIGGERS_MAX):
            engine.step()
    except ConcurrentUpdate:
        return True
    return False
