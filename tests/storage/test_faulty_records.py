"""Which records of a refused batch are named, and when none is."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import InvalidRecord
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.storage.faulty_records import RECORDS_MAX, naming
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_headers, with_records
from sharegroup.wire.compression import GZIP, compress


def named(batch: bytes) -> list[int]:
    """The records without a key that are named."""
    error = naming(
        InvalidRecord(),
        parse_headers(batch)[0],
        batch,
        lambda record: None if record.has_key else "no key",
    )
    return [index for index, _ in error.records]


def packed(batch: bytes) -> bytes:
    header = parse_headers(batch)[0]._replace(attributes=GZIP)
    return with_records(header, compress(GZIP, batch[HEADER_BYTES:]))


@pytest.mark.parametrize("pack", [bytes, packed])
def test_small_batches_are_named_in(pack: type[bytes]) -> None:
    records = [(b"k" if at % 2 else None, b"v") for at in range(5)]
    assert named(pack(encode_batch(records, timestamp_ms=1))) == [0, 2, 4]


@pytest.mark.parametrize("pack", [bytes, packed])
def test_large_ones_are_not(pack: type[bytes]) -> None:
    """A client that sends them again and again must not take the event loop."""
    many = [(None, b"v")] * RECORDS_MAX
    assert len(named(pack(encode_batch(many, timestamp_ms=1)))) == RECORDS_MAX
    assert named(pack(encode_batch([*many, (None, b"v")], timestamp_ms=1))) == []
    large = [(None, bytes(UNPACKED_ON_LOOP_BYTES_MAX))]
    assert named(pack(encode_batch(large, timestamp_ms=1))) == []
