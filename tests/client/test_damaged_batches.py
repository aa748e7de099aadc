"""A broker that sends damaged batches among good ones: each is rejected, said once and counted, and
all the rest is delivered, whichever way the application takes its records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import CorruptRecordBatch, ShareConsumer
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.records import pure, record_codec, walk
from sharegroup.records.pure_codec import PURE
from sharegroup.wire.batch import encode_batch, stamp
from sharegroup.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_group import TOPIC, TOPIC_ID, ScriptedGroup
from tests.records.bad import BOMB_BYTES, ZSTD, lies, of, packed
from tests.records.making import TIME_MS, batch_of, record, records, sized, zigzag

FETCHING = "consumer-share-fetch-manager-metrics"
WAIT_S = 240
SPAN = 12
"""Offsets between one batch and the next."""

DAMAGED = {
    **{name: bad for name, (bad, _) in lies().items()},
    "a bomb": of(ZSTD, packed(ZSTD, bytes(BOMB_BYTES // 64)) * 64),
    "a codec that does not exist": batch_of(records(3), 3, attributes=6),
    "a wrong checksum": encode_batch([(b"k", b"v")], timestamp_ms=0)[:-1] + b"\1",
    "another magic": batch_of(records(1), 1)[:16] + b"\3" + batch_of(records(1), 1)[17:],
    "a last offset before the first": batch_of(records(1), 1, last_delta=-2),
}
"""Bad batches; each stands between two good ones."""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, WAIT_S))


class DamagingGroup(ScriptedGroup):
    """One node that gives, once, what a log has; and what was said of each offset."""

    def __init__(self, *batches: bytes) -> None:
        super().__init__([1], records=0, at_once=0)
        self.data = b"".join(batches)
        self.acquired = [AcquiredRecords(0, 3 * SPAN - 1, 1)]
        self.said: dict[int, int] = {}

    def _fetch(self, node: int, request: Message) -> Message:
        assert isinstance(request, ShareFetchRequest)
        self._note(request.topics)
        data = PartitionData(partition_index=0)
        if self.data and request.max_records:
            data.records, self.data = self.data, b""
            data.acquired_records = self.acquired
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000,
            responses=[ShareFetchableTopicResponse(TOPIC_ID, [data])],
        )

    def _acknowledge(self, node: int, request: Message) -> Message:
        self._note(request.topics)  # type: ignore[attr-defined]
        return super()._acknowledge(node, request)

    def _note(self, topics: Any) -> None:
        for batch in (b for t in topics for p in t.partitions for b in p.acknowledgement_batches):
            offsets = range(batch.first_offset, batch.last_offset + 1)
            kinds = list(batch.acknowledge_types)
            kinds = kinds * len(offsets) if len(kinds) == 1 else kinds
            self.said.update(zip(offsets, kinds, strict=True))


def log_with(bad: bytes) -> list[bytes]:
    """Offsets 0-11 good, 12-23 not, 24-35 good."""
    stored = []
    for at, batch in enumerate((good(), bad, good())):
        one = bytearray(batch)
        stamp(one, at * SPAN, 0)
        stored.append(bytes(one))
    return stored


def good() -> bytes:
    return encode_batch([(b"k", b"%d" % n) for n in range(SPAN)], timestamp_ms=1_000)


GOOD_OFFSETS = [*range(SPAN), *range(2 * SPAN, 3 * SPAN)]


async def polled(consumer: ShareConsumer) -> AsyncIterator[list[int]]:
    while True:
        yield [one.offset for one in await consumer.poll(100)]


async def iterated(consumer: ShareConsumer) -> AsyncIterator[list[int]]:
    async for one in consumer:
        yield [one.offset]


async def in_batches(consumer: ShareConsumer) -> AsyncIterator[list[int]]:
    async for batch in consumer.batches():
        yield [one.offset for one in batch]


async def as_arrow(consumer: ShareConsumer) -> AsyncIterator[list[int]]:
    async for rows in consumer.arrow_batches():
        yield rows.column("offset").to_pylist()


WAYS = {"poll": polled, "async for": iterated, "batches": in_batches, "arrow": as_arrow}
Way = Callable[[ShareConsumer], AsyncIterator[list[int]]]


async def taken(
    consumer: ShareConsumer, way: Way, wanted: int
) -> tuple[list[int], list[CorruptRecordBatch]]:
    """Offsets that were delivered and accepted, and the errors between them; after one the way
    begins anew.
    """
    offsets: list[int] = []
    errors: list[CorruptRecordBatch] = []
    while len(offsets) < wanted:
        try:
            async for more in way(consumer):
                offsets += more
                if len(offsets) >= wanted:
                    await consumer.commit()
                    break
        except CorruptRecordBatch as error:
            errors.append(error)
    return offsets, errors


def check(group: DamagingGroup, errors: list[CorruptRecordBatch], log: str, total: float) -> None:
    [error] = errors
    assert (error.partition.topic, error.partition.partition, error.offset) == (TOPIC, 0, SPAN)
    assert log.count("rejecting damaged records") == 1
    assert f"rejecting damaged records: {SPAN}-" in log
    assert total == 1
    spoiled = {group.said.get(offset) for offset in range(SPAN, 2 * SPAN)}
    assert spoiled <= {AckType.REJECT, AckType.GAP}
    assert group.said[SPAN] == AckType.REJECT
    assert {group.said[offset] for offset in GOOD_OFFSETS} == {AckType.ACCEPT}


@pytest.fixture(params=["compiled", "pure"], autouse=True)
def in_use(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk and the codec that are installed, and Python's."""
    if request.param == "pure":
        monkeypatch.setattr(walk, "LIBRARY", None)
        monkeypatch.setattr(walk, "walk", pure.walk)
        monkeypatch.setattr(record_codec, "IN_USE", PURE)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("bad", DAMAGED.values(), ids=DAMAGED)
def test_the_damaged_batch_is_rejected_and_the_rest_is_delivered(
    bad: bytes, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with DamagingGroup(*log_with(bad)) as group:
            consumer = ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)
            async with consumer:
                offsets, errors = await taken(consumer, way, len(GOOD_OFFSETS))
                total = consumer.metrics()[FETCHING, "corrupt-batches-total"]
            assert offsets == GOOD_OFFSETS
            check(group, errors, caplog.text, total)

    run(scenario())


def test_the_blocking_client_does_the_same(caplog: pytest.LogCaptureFixture) -> None:
    def take(bootstrap: str) -> tuple[list[int], list[CorruptRecordBatch], float]:
        offsets: list[int] = []
        errors: list[CorruptRecordBatch] = []
        with sync.ShareConsumer(TOPIC, group_id="g", bootstrap_servers=bootstrap) as consumer:
            while len(offsets) < len(GOOD_OFFSETS):
                try:
                    offsets += [one.offset for one in consumer.poll(100)]
                except CorruptRecordBatch as error:
                    errors.append(error)
            total = consumer.metrics()[FETCHING, "corrupt-batches-total"]
            consumer.commit()
        return offsets, errors, total

    async def scenario() -> None:
        async with DamagingGroup(*log_with(DAMAGED["a bomb"])) as group:
            offsets, errors, total = await asyncio.to_thread(take, group.bootstrap)
            assert offsets == GOOD_OFFSETS
            check(group, errors, caplog.text, total)

    run(scenario())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("offset", [0, 5, 1_000, 2**62, -7])
def test_a_batch_with_another_batchs_offset_is_damaged(
    offset: int, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """No checksum covers a base offset: what stands behind such a batch is delivered as it was."""

    async def scenario() -> None:
        before, astray, after = log_with(good())
        data = [before, offset.to_bytes(8, "big", signed=True) + astray[8:], after]
        async with DamagingGroup(*data) as group:
            consumer = ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)
            async with consumer:
                offsets, errors = await taken(consumer, way, len(GOOD_OFFSETS))
            assert (offsets, errors) == (GOOD_OFFSETS, [])
            assert {group.said[one] for one in GOOD_OFFSETS} == {AckType.ACCEPT}
            assert {group.said[one] for one in range(SPAN, 2 * SPAN)} == {AckType.GAP}
            assert caplog.text.count("out of order") == 1

    run(scenario())


def test_a_header_key_that_is_not_utf_8_does_not_reject_the_batch() -> None:
    """Java gives replacement characters for it, and so do Arrow batches."""
    headers = zigzag(1) + sized(b"\xff\xfe") + sized(b"h")
    body = record(0) + record(1, None, b"x", headers, timestamp_delta=300) + record(2, b"", None)

    async def scenario() -> None:
        for codec in (0, ZSTD):
            batch = of(codec, packed(codec, body) if codec else body, 3)
            async with DamagingGroup(batch) as group:
                group.acquired = [AcquiredRecords(0, 2, 1)]
                consumer = ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)
                async with consumer:
                    first, second, third = await consumer.poll(5_000)
                assert (first.key, first.value, first.headers) == (b"k", b"v", [])
                assert second.headers == [("\ufffd\ufffd", b"h")]
                assert (second.offset, second.key, second.value) == (1, None, b"x")
                assert (second.timestamp, third.timestamp) == (TIME_MS + 300, TIME_MS)
                assert (third.key, third.value) == (b"", None)

    run(scenario())


def test_the_time_for_many_headers_is_linear_in_their_bytes() -> None:
    """Each header of one record as a step of its own for all records would take a minute."""
    many = 150_000
    headers = zigzag(many) + (sized(b"a") + sized(None)) * many
    body = b"".join(record(n, headers=headers if n == 7 else b"\0") for n in range(3_000))

    async def scenario() -> None:
        async with DamagingGroup(batch_of(body, 3_000)) as group:
            group.acquired = [AcquiredRecords(0, 2_999, 1)]
            consumer = ShareConsumer(TOPIC, group_id="g", bootstrap_servers=group.bootstrap)
            async with consumer:
                async for rows in consumer.arrow_batches(include_headers=True):
                    lists = rows.column("headers")
                    counts = [len(one) if one.is_valid else 0 for one in lists]
                    assert counts[7] == sum(counts) == many
                    break

    run(scenario())
