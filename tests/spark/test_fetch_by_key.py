"""Tasks with parts of a partition's keys, over real connections: with a broker that filters, and
with one that does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from sharegroup.arrow.rows import RowBuilder
from sharegroup.client import Admin
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.source.planning import key_parts
from sharegroup.spark.task.fetch import SliceReader, TaskFetchSettings
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

PARTS, KEYS, RECORDS = 4, 50, 4_000
VALUE = b"v" * 100
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


def filled(
    broker: SharegroupServer,
    topic: str,
    *,
    allowed: bool = True,
    value: bytes = VALUE,
    keys: int = KEYS,
    batch: int = 10_000,
) -> UUID:
    """A topic of one partition; with several ``keys``, each third record has none.

    Args:
        batch: the most records of a record batch.
    """
    configs = {"accept_range_fetch": str(allowed).lower()}
    admin.Admin(broker.bootstrap).create_topic(topic, **configs)
    settings = {"linger.ms": 20, "batch.num.messages": batch}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings, **admin.SILENT})
    for number in range(RECORDS * len(VALUE) // len(value)):
        key = None if number % 3 == 0 and keys > 1 else b"k%d" % (number % keys)
        producer.produce(topic, b"%d " % number + value, key=key, partition=0)
    assert producer.flush(30) == 0

    async def ask() -> UUID:
        async with Admin(broker.bootstrap) as client:
            return (await client.describe_topics(topic))[topic].topic_id

    return asyncio.run(ask())


def read(broker: SharegroupServer, part: Slice, *, by_key: bool) -> tuple[Rows, int]:
    """The rows of a slice, and the bytes that were fetched for them."""
    settings = TaskFetchSettings(
        bootstrap_servers=broker.bootstrap,
        client_id="test",
        request_timeout_ms=5_000,
        poll_timeout_ms=5_000,
        fail_on_data_loss=True,
    )
    rows = RowBuilder(("offset", "key", "value"), part.topic, 0, part.ranges, keys=part.keys)
    found: Rows = []
    size = 0
    for chunk in SliceReader(part, None, settings, by_key=by_key).chunks():
        size += len(chunk.data)
        found += [row for one in rows.rows(chunk.data, chunk.offset) for row in one.to_pylist()]
    return found, size


def slices(topic: str, topic_id: UUID, *ranges: tuple[int, int]) -> list[Slice]:
    acquired = tuple(Acquired(*one, 1) for one in ranges)
    return [Slice(topic, topic_id, 0, acquired, keys) for keys in key_parts(PARTS)]


@pytest.mark.parametrize("allowed", [True, False], ids=["filters", "does-not-filter"])
def test_each_record_is_read_by_one_slice(
    broker: SharegroupServer, tmp_path: Path, allowed: bool
) -> None:
    topic = f"each-{allowed}"
    topic_id = filled(broker, topic, allowed=allowed)
    ranges = ((3, 4), (900, 1_100), (1_200, RECORDS - 2))
    seen: list[int] = []
    for part in slices(topic, topic_id, *ranges):
        plain, whole = read(broker, part, by_key=False)
        rows, size = read(broker, part, by_key=True)
        assert rows == plain
        assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
        # Without a filter whole batches come, and some of their neighbours (see the test below).
        assert (size < whole / 2) is allowed
        seen += [row["offset"] for row in rows]
    assert sorted(seen) == [n for first, last in ranges for n in range(first, last + 1)]


def test_how_many_neighbours_come_depends_on_what_was_read_before(broker: SharegroupServer) -> None:
    """A request asks for bytes. The first of a topic guesses how large records are; later ones
    know it from the read before. So two reads of one slice differ in bytes, and never in rows."""
    topic_id = filled(broker, "neighbours", batch=10)
    count = RECORDS // 4
    part = Slice("neighbours", topic_id, 0, (Acquired(0, count - 1, 1),), None)
    first, guessed = read(broker, part, by_key=False)
    second, known = read(broker, part, by_key=False)
    assert [row["offset"] for row in first] == list(range(count))
    assert second == first
    assert known < guessed / 2


def test_answers_that_end_within_a_batch_of_the_log(broker: SharegroupServer) -> None:
    topic_id = filled(broker, "large", value=b"v" * 10_000)
    end = 40
    seen: list[bytes] = []
    for part in slices("large", topic_id, (0, end - 1)):
        rows, _ = read(broker, part, by_key=True)
        assert rows == read(broker, part, by_key=False)[0]
        seen += [row["value"].split()[0] for row in rows]
    assert sorted(seen) == sorted(b"%d" % number for number in range(end))


def test_a_part_without_records_at_the_end_of_the_log(broker: SharegroupServer) -> None:
    topic_id = filled(broker, "one-key", keys=1)
    parts = slices("one-key", topic_id, (RECORDS - 10, RECORDS - 1))
    found = [len(read(broker, part, by_key=True)[0]) for part in parts]
    assert sorted(found) == [0, 0, 0, 10]
