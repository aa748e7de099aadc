"""What a stream tells its user in the driver's log."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.model.ids import TopicIdPartition, parse_topic_id
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.group_view import LOCKS_CONFIG, WIDE_LOCKS_CONFIG
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.telling.advice import Advice
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.readers import Stream, produce_singly, until

PARTITION = TopicIdPartition(parse_topic_id("AAAAAAAAAAAAAAAAAAAAAQ"), 0)
OPTIONS = ShareOptions(bootstrap_servers="h:1", group_id="g", topics=("t",))


def batch(records: int) -> BatchOffset:
    return BatchOffset(sequence=2, ranges={PARTITION: (Acquired(0, records - 1, 1),)})


def sentences(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_locks_that_bound_the_batch_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    advice = Advice(OPTIONS)
    advice.locks(batch(100), 100, 50, LOCKS_CONFIG)  # as many as asked for
    advice.locks(batch(40), 100, 50, LOCKS_CONFIG)  # there were no more
    advice.locks(batch(40), 100, None, LOCKS_CONFIG)
    assert sentences(caplog) == []
    for _ in range(2):
        advice.locks(batch(50), 100, 50, LOCKS_CONFIG)
    [sentence] = sentences(caplog)
    assert "group g may hold 50 records of a partition" in sentence


def test_locks_that_bound_the_batch_are_logged_without_a_limit_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    advice = Advice(OPTIONS)
    advice.locks(batch(40), None, 50, LOCKS_CONFIG)
    assert sentences(caplog) == []
    advice.locks(batch(50), None, 50, LOCKS_CONFIG)
    assert "a batch has 50 records and not all that wait" in sentences(caplog)[0]


def test_locks_do_not_bound_a_batch_in_claim_mode(caplog: pytest.LogCaptureFixture) -> None:
    advice = Advice(replace(OPTIONS, ack_mode="claim", claim_location="/claims"))
    advice.locks(batch(50), None, 50, LOCKS_CONFIG)
    advice.locks(batch(50), 100, 50, LOCKS_CONFIG)
    assert sentences(caplog) == []


def test_order_per_key_without_tasks_by_key_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    advice = Advice(OPTIONS)
    advice.order(ordered_by_key=False)
    Advice(replace(OPTIONS, split_by="key")).order(ordered_by_key=True)
    assert sentences(caplog) == []
    for _ in range(2):
        advice.order(ordered_by_key=True)
    [sentence] = sentences(caplog)
    assert "the group g has share.ordering=key" in sentence
    assert "splitBy key" in sentence


def test_batches_longer_than_their_locks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    advice = Advice(OPTIONS)
    advice.batch_time(29, 30_000)
    advice.batch_time(31, None)
    assert sentences(caplog) == []
    advice.batch_time(31, 30_000)
    assert "a batch took 31 s, but its locks last 30 s" in sentences(caplog)[0]


def test_batches_that_are_not_committed_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    advice = Advice(OPTIONS)
    for sequence in (1, 2):
        advice.superseded(sequence)
        advice.committed(sequence)
    advice.superseded(3)
    assert sentences(caplog) == []
    advice.superseded(4)
    assert "asyncProgressTrackingEnabled" in sentences(caplog)[0]


@pytest.mark.process
@pytest.mark.parametrize("limit", [300, None], ids=["limited", "unlimited"])
def test_a_stream_logs_that_locks_bound_its_batches(
    server: RunningServer, name: str, limit: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    Admin(server.bootstrap).create_topic(name)
    produce_singly(server, name, [b"%d" % n for n in range(1_000)])
    stream = Stream(server, name, recordLocksPerPartition="100", prefetch="false")
    told = f"the group {name} may hold 100 records"
    until(lambda: bool(stream.batch(limit)) and any(told in one for one in sentences(caplog)))
    stream.stop()


@pytest.mark.process
@pytest.mark.parametrize("setting", [LOCKS_CONFIG, WIDE_LOCKS_CONFIG])
def test_a_lock_limit_that_the_group_has_holds_and_is_named(
    tmp_path: Path, name: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SharegroupServer(tmp_path) as server:
        Admin(server.bootstrap).create_topic(name)
        Admin(server.bootstrap).set_group(name, **{setting: "100"})
        produce_singly(server, name, [b"%d" % n for n in range(1_000)])
        stream = Stream(server, name, prefetch="false")
        assert stream.batch().total() == 100
        told = f"may hold 100 records of a partition .* raise the group's {setting} "
        until(
            lambda: bool(stream.batch()) and any(re.search(told, one) for one in sentences(caplog))
        )
        stream.stop()


@pytest.mark.process
def test_a_stream_tells_of_order_per_key_without_tasks_by_key(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SharegroupServer(tmp_path) as server:  # Apache Kafka has no order in share groups
        Admin(server.bootstrap).create_topic(name)
        Admin(server.bootstrap).set_group(name, share_ordering="key")
        produce_singly(server, name, [b"1", b"2"])
        stream = Stream(server, name)
        stream.batch()
        until(lambda: any("has share.ordering=key" in one for one in sentences(caplog)))
        stream.stop()
