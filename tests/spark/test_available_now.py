"""The end of a run over what is there now, while another member holds records or partitions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.sync import ShareConsumer
from tests.apache_kafka.broker import KafkaBroker
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import LONG_LOCKS, lags
from tests.spark.readers import Stream, produce_singly
from tests.spark.source_program import Source

pytestmark = pytest.mark.process

SESSION_MS = 6_000
VALUES = [b"%d" % n for n in range(300)]


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
    with started(request.param, tmp_path_factory.mktemp("broker"), "2000") as running:
        yield running


def started(kind: type[RunningServer], folder: Path, lock_ms: str, *more: str) -> RunningServer:
    """A broker on which sessions end after seconds."""
    return kind(
        folder,
        f"group.share.record.lock.duration.ms={lock_ms}",
        "group.share.min.record.lock.duration.ms=1000",
        f"group.share.session.timeout.ms={SESSION_MS}",
        f"group.share.min.session.timeout.ms={SESSION_MS}",
        "group.share.heartbeat.interval.ms=500",
        "group.share.min.heartbeat.interval.ms=500",
        *more,
    )


@pytest.fixture
def source(broker: RunningServer, name: str, tmp_path: Path) -> Iterator[Source]:
    """Another member of the group, which holds the records of the topic's four partitions."""
    Admin(broker.bootstrap).create_topic(name, partitions=4)
    produce(broker.bootstrap, name, VALUES)
    other = Source(broker.bootstrap, name, str(tmp_path / "acks"))
    yield other
    other.kill()


def run(stream: Stream) -> Counter[bytes]:
    """To its end."""
    stream.reader.prepareForTriggerAvailableNow()
    seen: Counter[bytes] = Counter()
    while (end := stream.next()) is not None:
        seen += stream.run(end)
    stream.stop()
    return seen


def test_a_run_leaves_records_that_come_into_an_empty_partition(
    broker: RunningServer, name: str
) -> None:
    Admin(broker.bootstrap).create_topic(name, partitions=2)
    produce_singly(broker, name, VALUES[:20])
    stream = Stream(broker, name)
    stream.reader.prepareForTriggerAvailableNow()
    produce_singly(broker, name, VALUES[20:30], partition=1)
    seen: Counter[bytes] = Counter()
    while (end := stream.next(limit=5)) is not None:  # more than one batch, so that both came
        seen += stream.run(end)
    stream.stop()
    assert seen == Counter(VALUES[:20])
    assert run(Stream(broker, name)) == Counter(VALUES[20:30])
    assert sum(lag or 0 for lag in lags(broker, name)) == 0


def test_a_run_gets_the_records_of_a_member_that_died_without_a_checkpoint(
    broker: RunningServer, name: str, source: Source
) -> None:
    source.kill()
    assert run(Stream(broker, name)) == Counter(VALUES)
    assert sum(lag or 0 for lag in lags(broker, name)) == 0


@pytest.mark.parametrize("broker", [SharegroupServer], ids=["sharegroup"], indirect=True)
def test_a_run_logs_records_that_a_live_member_holds(
    broker: RunningServer, name: str, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    seen = run(Stream(broker, name))
    left = len(VALUES) - seen.total()
    assert left > 0
    told = [record.getMessage() for record in caplog.records if "available" in record.pathname]
    assert f"the run ends, and {left} records that it was to read are not done" in told[-1]
    assert f"{name}-" in told[-1]
    assert "(with member " in told[-1]
    assert "waits until " in told[0]


def test_a_run_does_not_wait_for_the_locks_of_a_live_member(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has partitions, and locks last an hour: a run that waits for them does not end. That the
    group still names the member after a session is enough to know that it lives."""
    with started(SharegroupServer, tmp_path, "3600000", LONG_LOCKS) as broker:
        Admin(broker.bootstrap).create_topic(name, partitions=4)
        for partition in range(4):
            produce_singly(broker, name, VALUES[partition::4], partition)
        options = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}
        with ShareConsumer(name, group_id=name, **options):  # it takes nothing
            seen = run(Stream(broker, name))
        assert 0 < seen.total() < len(VALUES)
        told = [record.getMessage() for record in caplog.records]
        assert sum("the run ends" in line for line in told) == 1, "it waited twice"
        assert seen + run(Stream(broker, name)) == Counter(VALUES)
        assert sum(lag or 0 for lag in lags(broker, name)) == 0
