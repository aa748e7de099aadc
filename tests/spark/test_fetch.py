"""Exact ranges of a real log, over real connections, whatever happens to the broker meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from sharegroup.arrow.rows import RowBuilder
from sharegroup.client import Admin
from sharegroup.client.network.addresses import Address
from sharegroup.model.errors import NetworkException
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.task import fetch
from sharegroup.spark.task.fetch import DataLoss, SliceReader, TaskFetchSettings
from tests.servers import admin
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

RECORDS = 3_000
BATCH_MAX = 1_000  # no batch of the log crosses a multiple of this


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path) as running:
        admin.Admin(running.bootstrap).create_topic("t")
        for first in range(0, RECORDS, BATCH_MAX):
            values = [b"%d" % n for n in range(first, first + BATCH_MAX)]
            admin.produce(running.bootstrap, "t", values)
        yield running


def topic_id(broker: SharegroupServer) -> UUID:
    async def ask() -> UUID:
        async with Admin(broker.bootstrap) as client:
            return (await client.describe_topics("t"))["t"].topic_id

    return asyncio.run(ask())


def delete_before(broker: SharegroupServer, offset: int) -> None:
    async def ask() -> None:
        async with Admin(broker.bootstrap) as client:
            await client.delete_records({TopicPartition("t", 0): offset})

    asyncio.run(ask())


def settings(
    broker: SharegroupServer, *, loss: bool = True, patience: int = 5_000
) -> TaskFetchSettings:
    return TaskFetchSettings(
        bootstrap_servers=broker.bootstrap,
        client_id="test",
        request_timeout_ms=5_000,
        poll_timeout_ms=patience,
        fail_on_data_loss=loss,
    )


def read(part: Slice, how: TaskFetchSettings, leader: Address | None = None) -> Iterator[int]:
    """The values read, which are the offsets written out."""
    rows = RowBuilder(("offset", "value"), "t", 0, part.ranges)
    for chunk in SliceReader(part, leader, how).chunks():
        for batch in rows.rows(chunk.data, chunk.offset):
            for row in batch.to_pylist():
                assert row["value"] == b"%d" % row["offset"]
                yield row["offset"]


def sliced(broker: SharegroupServer, *ranges: tuple[int, int]) -> Slice:
    return Slice("t", topic_id(broker), 0, tuple(Acquired(*one, 1) for one in ranges))


def test_exactly_the_ranges_every_time(broker: SharegroupServer) -> None:
    part = sliced(broker, (3, 4), (900, 1_100), (RECORDS - 1, RECORDS - 1))
    expected = [3, 4, *range(900, 1_101), RECORDS - 1]
    assert list(read(part, settings(broker))) == expected
    assert list(read(part, settings(broker))) == expected  # the connection is used again


def test_a_task_that_ends_early_leaves_no_answer_behind(broker: SharegroupServer) -> None:
    part = sliced(broker, (0, RECORDS - 1))
    rows = read(part, settings(broker))
    assert next(rows) == 0
    rows.close()
    assert list(read(part, settings(broker))) == list(range(RECORDS))


def test_a_restart_of_the_broker_and_a_leader_that_moved(broker: SharegroupServer) -> None:
    part = sliced(broker, (0, RECORDS - 1))
    assert len(list(read(part, settings(broker)))) == RECORDS
    broker.kill()
    broker.start()
    assert len(list(read(part, settings(broker)))) == RECORDS
    elsewhere = Address(HOST, free_port())
    assert len(list(read(part, settings(broker), elsewhere))) == RECORDS


def test_records_that_retention_removed(broker: SharegroupServer) -> None:
    part = sliced(broker, (0, RECORDS - 1))
    delete_before(broker, RECORDS - 10)
    with pytest.raises(DataLoss, match=r'write \.option\("failOnDataLoss", "false"\)'):
        list(read(part, settings(broker)))
    left = list(read(part, settings(broker, loss=False)))
    assert left[-10:] == list(range(RECORDS - 10, RECORDS))
    # the rest of the batch that the start lies in may still be there, and no other
    assert left[0] >= RECORDS - BATCH_MAX


@pytest.mark.parametrize("lost", [(RECORDS, RECORDS + 9), (RECORDS + 500, RECORDS + 509)])
def test_a_log_that_came_back_shorter(
    broker: SharegroupServer, lost: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    part = sliced(broker, (RECORDS - 5, RECORDS - 1), lost)
    with pytest.raises(DataLoss, match="or a broker came back without them"):
        list(read(part, settings(broker, patience=300)))
    left = list(read(part, settings(broker, loss=False, patience=300)))
    assert left == list(range(RECORDS - 5, RECORDS))
    assert "going on without them" in caplog.text


def test_a_recreated_topic_is_not_read_for_the_old_one(broker: SharegroupServer) -> None:
    part = sliced(broker, (0, RECORDS - 1))
    admin.Admin(broker.bootstrap).delete_topic("t")
    admin.Admin(broker.bootstrap).create_topic("t")
    with pytest.raises(DataLoss):
        list(read(part, settings(broker)))
    assert list(read(part, settings(broker, loss=False))) == []


def test_an_unreachable_broker_is_reported(broker: SharegroupServer) -> None:
    part = sliced(broker, (0, 9))
    broker.kill()
    with pytest.raises(NetworkException, match="nothing could be read for 300 ms"):
        list(read(part, settings(broker, patience=300)))


def test_the_time_that_spark_takes_for_rows_is_not_the_brokers_silence(
    broker: SharegroupServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("FETCH_BYTES_MIN", "FETCH_BYTES_MAX"):
        monkeypatch.setattr(fetch, limit, 1)  # a record batch at a time
    spent: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(spent))
    monkeypatch.setattr(fetch, "time", clock)
    reader = SliceReader(sliced(broker, (0, RECORDS - 1)), None, settings(broker))
    chunks = reader.chunks()
    assert next(chunks).offset == 0
    spent.append(3_600)
    assert reader._connection is not None
    reader._connection._socket.close()  # what was asked for ahead gets no answer
    *_, last = chunks
    assert last.offset >= RECORDS - BATCH_MAX
