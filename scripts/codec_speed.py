"""What it costs to read and to write a record: our codec, compiled and in Python, and aiokafka's.

``python scripts/codec_speed.py`` prints nanoseconds per record, the best of many rounds, on one
core, for batches of several shapes:

* reading checks the checksum, and makes an object for each record;
* aiokafka's reader trusts a batch, so our compiled walk comes before it (``walk +``);
* writing appends each record and builds the batch, checksum included;
* ``client`` is the whole way in the client, with whatever it uses now: from fetched bytes to
  records of the application (``decode_all``), and from an outbox to a batch that can be sent.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: E402
from aiokafka.record.memory_records import MemoryRecords  # noqa: E402

from sharegroup.client.core.fetched import FetchedPartition, Lease, LockedRange  # noqa: E402
from sharegroup.client.core.outbox import Outbox, ProducerIdentity  # noqa: E402
from sharegroup.client.records.decode import decode_all  # noqa: E402
from sharegroup.model.ids import TopicPartition  # noqa: E402
from sharegroup.records import record_codec  # noqa: E402
from sharegroup.records.batches import bounds_of  # noqa: E402
from sharegroup.records.check import walk_records  # noqa: E402
from sharegroup.records.pure_codec import PURE, Codec, Headers  # noqa: E402
from sharegroup.records.record_codec import BatchBuilder, records_in  # noqa: E402
from sharegroup.wire.batch import check_crc, parse_header, stamp  # noqa: E402

RECORDS: Final = 10_000
BYTES_MAX: Final = 1 << 30
TIME_MS: Final = 1_700_000_000_000


class Shape(NamedTuple):
    """Records that are alike, so many in each batch."""

    name: str
    value_bytes: int
    headers: Headers
    per_batch: int


SHAPES: Final = (
    Shape("value of 100 B, 150 in a batch", 100, [], 150),
    Shape("value of 10 B, 1,000 in a batch", 10, [], 1_000),
    Shape("value of 1 kB, 16 in a batch", 1_000, [], 16),
    Shape("100 B and 2 headers, 150 in a batch", 100, [("trace", b"1"), ("from", b"here")], 150),
    Shape("value of 100 B, 1 in a batch", 100, [], 1),
)


class Fields(NamedTuple):
    """One record to write."""

    timestamp: int
    key: bytes
    value: bytes
    headers: Headers


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--rounds", type=int, default=30, help="of each measurement")
    rounds: int = arguments.parse_args().rounds
    compiled = None if record_codec.IN_USE is PURE else record_codec.IN_USE
    if compiled is None:
        print("the codec is not compiled here (SHAREGROUP_PURE, or no compiler)")
    for shape in SHAPES:
        print(f"{shape.name}: ns per record")
        show("read", reading(shape, compiled, rounds))
        show("write", writing(shape, compiled, rounds))


def show(what: str, found: dict[str, float]) -> None:
    """A line; each figure is also given as a part of aiokafka's."""
    base = found["aiokafka"]
    cells = [f"{name} {ns:,.0f} ({ns / base:.2f} ×)" for name, ns in found.items()]
    print(f"  {what:5} {'   '.join(cells)}", flush=True)


def reading(shape: Shape, compiled: Codec | None, rounds: int) -> dict[str, float]:
    """Nanoseconds per record, by who reads."""
    data = b"".join(stored(shape))
    view = memoryview(data)

    def ours() -> list[Any]:
        found: list[Any] = []
        for one in bounds_of(view):
            check_crc(one.batch)
            found.append(records_in(parse_header(one.batch), one.batch))
        return found

    def theirs() -> list[Any]:
        found: list[Any] = []
        for batch in iter(MemoryRecords(data).next_batch, None):
            assert batch.validate_crc()
            found.append(list(batch))
        return found

    def theirs_checked() -> list[Any]:
        for one in bounds_of(view):
            walk_records(parse_header(one.batch), one.batch, dense=False)
        return theirs()

    def client() -> list[Any]:
        return decode_all([fetched])

    fetched = FetchedPartition(
        topic="t",
        topic_id=UUID(int=1),
        partition=0,
        records=data,
        acquired=[LockedRange(0, RECORDS - 1, 1)],
        error=None,
        lease=Lease(),
        lock_deadline=1.0,
    )
    return measured(compiled, ours, rounds) | {
        "aiokafka": best_ns(theirs, rounds),
        "walk + aiokafka": best_ns(theirs_checked, rounds),
        "client": best_ns(client, rounds),
    }


def writing(shape: Shape, compiled: Codec | None, rounds: int) -> dict[str, float]:
    """Nanoseconds per record, by who writes."""
    batches = list(in_batches(shape))

    def ours() -> None:
        for batch in batches:
            builder = BatchBuilder(0, BYTES_MAX)
            append = builder.append
            for timestamp, key, value, headers in batch:
                append(timestamp, key, value, headers)
            builder.build()

    def theirs() -> None:
        for batch in batches:
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BYTES_MAX)
            append = builder.append
            for offset, (timestamp, key, value, headers) in enumerate(batch):
                append(offset, timestamp, key, value, headers)
            builder.build()

    def client() -> None:
        outbox = Outbox(
            TopicPartition("t", 0),
            batch_size=BYTES_MAX,
            codec=0,
            delivery_timeout_s=60.0,
            idempotent=True,
            make_outcome=object,
        )
        identity = ProducerIdentity(1, 0)
        outbox.identify(identity)
        for batch in batches:
            for timestamp, key, value, headers in batch:
                outbox.append(0.0, timestamp, key, value, headers)
            sent = outbox.take()
            sent.encoded(identity)
            outbox.succeeded(sent)

    return measured(compiled, ours, rounds) | {
        "aiokafka": best_ns(theirs, rounds),
        "client": best_ns(client, rounds),
    }


def measured(compiled: Codec | None, ours: Callable[[], object], rounds: int) -> dict[str, float]:
    """Our codec, compiled and in Python."""
    in_use = record_codec.IN_USE
    found: dict[str, float] = {}
    try:
        for name, codec in (("compiled", compiled), ("pure", PURE)):
            if codec is not None:
                record_codec.IN_USE = codec
                found[name] = best_ns(ours, rounds)
    finally:
        record_codec.IN_USE = in_use
    return found


def best_ns(work: Callable[[], object], rounds: int) -> float:
    """Nanoseconds per record of the best round. What the rounds make is dropped in the measured
    time, and the garbage collector is off, as in the client."""
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            begun = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - begun)
    finally:
        gc.enable()
    return best / RECORDS * 1e9


def in_batches(shape: Shape) -> Iterator[list[Fields]]:
    """All records of this shape."""
    for first in range(0, RECORDS, shape.per_batch):
        numbers = range(first, min(first + shape.per_batch, RECORDS))
        yield [
            Fields(TIME_MS + n, b"key%07d" % n, bytes(shape.value_bytes), shape.headers)
            for n in numbers
        ]


def stored(shape: Shape) -> Iterator[bytes]:
    """The batches as a log has them."""
    offset = 0
    for batch in in_batches(shape):
        builder = BatchBuilder(0, BYTES_MAX)
        for one in batch:
            builder.append(*one)
        data = builder.build()
        stamp(data, offset, 0)
        offset += len(batch)
        yield bytes(data)


if __name__ == "__main__":
    main()
