"""Whole batches: what is refused, by which error, and at which memory."""

from __future__ import annotations

import subprocess
import sys

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model import limits
from sharegroup.model.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    UnsupportedCompressionType,
)
from sharegroup.records.check import check_records, plain_records, walk_records
from sharegroup.wire import compression
from sharegroup.wire.batch import CONTROL, parse_header
from sharegroup.wire.compression import decompress
from tests.records.bad import GZIP, LZ4, SNAPPY, XERIAL, ZSTD, blocks, bombs, lies, of, packed
from tests.records.making import TIME_MS, batch_of, record, records, written

LIES = lies()
BEHIND = b"".join(record(delta) for delta in range(5, 10))
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def check(batch: bytes, *, dense: bool = True) -> None:
    check_records(parse_header(batch), batch, dense=dense)


@pytest.mark.parametrize(("bad", "error"), LIES.values(), ids=LIES)
def test_inconsistent_batches_are_refused(bad: bytes, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check(bad)


@codecs
def test_batches_of_producers_are_valid(codec: int) -> None:
    made = [(b"k", b"v" * 50, TIME_MS + n, [("h", b"1")]) for n in range(200)]
    check(written(made, codec))
    walked = walk_records(parse_header(written(made, codec)), written(made, codec))
    assert (walked.earliest_ms, walked.latest_ms) == (TIME_MS, TIME_MS + 199)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_any_buffer_is_checked(form: type) -> None:
    for batch in (batch_of(records(3), 3), of(ZSTD, packed(ZSTD, records(3)), 3)):
        check_records(parse_header(batch), form(batch))


def test_an_unknown_codec() -> None:
    with pytest.raises(UnsupportedCompressionType):
        check(of(5, b"", 1))


def test_a_compacted_batch_has_fewer_records_than_offsets() -> None:
    compacted = batch_of(record(2) + record(7), 2, last_delta=9)
    check(compacted, dense=False)
    check(batch_of(b"", 0, last_delta=9), dense=False)
    check(batch_of(b"", 0, last_delta=9, attributes=GZIP), dense=False)
    for dense, batch in (
        (True, compacted),
        (True, batch_of(b"", 0, last_delta=9)),
        (True, batch_of(b"", 0, last_delta=-1)),
        (False, batch_of(record(2) + record(10), 2, last_delta=9)),
        (False, batch_of(records(3), 3, last_delta=1)),
        (False, batch_of(b"", -1, last_delta=9)),
        (False, batch_of(b"\0", 0, last_delta=9)),
    ):
        header = parse_header(batch_of(b"", 1))._replace(
            record_count=int.from_bytes(batch[57:61], "big", signed=True),
            last_offset_delta=int.from_bytes(batch[23:27], "big", signed=True),
        )
        with pytest.raises(InvalidRecord):
            check_records(header, batch, dense=dense)


def test_a_control_batch_is_walked_as_any_other() -> None:
    marker = batch_of(record(0, b"\0\0\0\1", b"\0\0\0\0\0\0"), 1, attributes=CONTROL)
    check(marker)
    with pytest.raises(CorruptMessage):
        check(batch_of(record(0)[:-1], 1, attributes=CONTROL))


def test_a_batch_that_has_more_records_than_bytes_is_not_walked() -> None:
    """Its count is refused before anything is made ready for so many."""
    smallest = b"".join(record(delta, None, None) for delta in range(9))
    assert len(smallest) == 9 * limits.RECORD_BYTES_MIN
    check(batch_of(smallest, 9))
    with pytest.raises(InvalidRecord, match="10 records are claimed to be in 63 bytes"):
        check(batch_of(smallest, 10))


# --- unpacking ------------------------------------------------------------------------------------


@codecs
@given(data=st.binary(max_size=300) | st.integers(0, 300_000).map(lambda n: b"ab" * n))
def test_decompression_round_trips(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, memoryview(packed(codec, data)))) == data


@codecs
@pytest.mark.parametrize("size", [1_000, 200_000, 3_000_000])
def test_the_bound_applies_to_decompressed_bytes(codec: int, size: int) -> None:
    data = packed(codec, bytes(size))
    assert len(decompress(codec, data, size)) == size
    with pytest.raises(CorruptMessage):
        decompress(codec, data, size - 1)


@codecs
@given(junk=st.binary(max_size=200), change=st.integers(0, 10_000))
def test_junk_raises_only_corrupt_message(codec: int, junk: bytes, change: int) -> None:
    good = bytearray(packed(codec, records(20)))
    good[change % len(good)] ^= 1 + change % 255
    for data in (junk, bytes(good), bytes(good[: change % len(good)])):
        try:
            decompress(codec, data)
        except CorruptMessage:
            continue


def test_streams_one_after_the_other_are_one_as_in_java() -> None:
    for codec in (GZIP, ZSTD):
        both = packed(codec, records(5)) + packed(codec, BEHIND)
        assert bytes(decompress(codec, both)) == records(5) + BEHIND
    one = bytes(cramjam.snappy.compress_raw(b"a"))
    assert decompress(SNAPPY, blocks((len(one), one)) + blocks((len(one), one))) == b"aa"
    assert decompress(SNAPPY, XERIAL) == b""
    assert decompress(SNAPPY, one) == b"a"  # librdkafka's


def test_the_number_of_blocks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "COMPRESSED_BLOCKS_MAX", 3)
    one = bytes(cramjam.snappy.compress_raw(b"a"))
    assert decompress(SNAPPY, blocks(*[(len(one), one)] * 3)) == b"aaa"
    with pytest.raises(CorruptMessage, match="too many"):
        decompress(SNAPPY, blocks(*[(len(one), one)] * 4))


def test_a_frame_of_incompressible_bytes_fits() -> None:
    """What a topic lets in plain it lets in compressed as well."""
    assert limits.DECOMPRESSED_BATCH_BYTES_MAX >= 2 * limits.FRAME_BYTES_MAX


MEASURE = """
import resource, sys
from sharegroup.model.errors import CorruptMessage
from sharegroup.records.check import check_records
from sharegroup.wire.batch import parse_header

bomb = open(sys.argv[1], "rb").read()
header = parse_header(bomb)
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
try:
    check_records(header, bomb)
except CorruptMessage:
    status = open("/proc/self/status").read()  # ru_maxrss counts the parent's before the exec
    print(int(status.split("VmHWM:")[1].split()[0]))
"""


@pytest.mark.process
def test_a_bomb_costs_no_more_than_the_bound(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each in a process of its own, whose largest memory is measured."""
    path = tmp_path_factory.mktemp("bombs") / "bomb"
    allowed_kb = limits.DECOMPRESSED_BATCH_BYTES_MAX * 5 // 4 // 1024 + 100_000
    for name, bomb in bombs().items():
        path.write_bytes(bomb)
        shown = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
        )
        assert shown.stdout, f"{name}: was let through"
        used_kb = int(shown.stdout) - len(bomb) // 1024
        assert used_kb < allowed_kb, f"{name}: {used_kb} KB"


def test_plain_records_of_an_uncompressed_batch_are_not_copied() -> None:
    batch = batch_of(records(3), 3)
    found = plain_records(parse_header(batch), batch)
    assert isinstance(found, memoryview)
    assert found.obj is batch
