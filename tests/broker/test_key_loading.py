"""Hashing keys for order per key: on the event loop when little is unpacked, else in a thread."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.delivery.key_loading import load_keys
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_header, walk, with_records
from sharegroup.wire.compression import compress
from tests.share.keyed import keyed_partition

GZIP = 1


def batch(bytes_unpacked: int, codec: int = GZIP, *, broken: bool = False) -> bytes:
    """One record whose batch unpacks to so many bytes."""
    fixed = len(encode_batch([(b"k", bytes(100_000))], timestamp_ms=0)) - HEADER_BYTES - 100_000
    size = bytes_unpacked - fixed
    plain = encode_batch([(b"k", bytes(size))], timestamp_ms=0)
    if len(plain) - HEADER_BYTES != bytes_unpacked:  # the lengths inside it have grown
        size -= len(plain) - HEADER_BYTES - bytes_unpacked
        plain = encode_batch([(b"k", bytes(size))], timestamp_ms=0)
    assert len(plain) - HEADER_BYTES == bytes_unpacked
    if not codec:
        return plain
    packed = compress(codec, plain[HEADER_BYTES:])
    if broken:
        packed = packed[: len(packed) // 2]
    return with_records(parse_header(plain)._replace(attributes=codec), packed)


@pytest.mark.parametrize(
    ("size", "codec", "at_once"),
    [
        (UNPACKED_ON_LOOP_BYTES_MAX, GZIP, True),
        (UNPACKED_ON_LOOP_BYTES_MAX + 1, GZIP, False),
        (UNPACKED_ON_LOOP_BYTES_MAX + 1, 0, True),
    ],
)
def test_large_batches_are_unpacked_elsewhere(size: int, codec: int, at_once: bool) -> None:
    async def scenario() -> None:
        core = keyed_partition()
        data = batch(size, codec)
        loading = asyncio.ensure_future(
            load_keys(core.order, data, walk(data), Unpacking(), fetch_offset=0)
        )
        await asyncio.sleep(0)
        assert loading.done() is at_once
        await loading
        assert core.order.loaded_end == 1
        core.check_invariants()

    asyncio.run(scenario())


def test_a_batch_that_cannot_be_unpacked() -> None:
    async def scenario() -> None:
        core = keyed_partition()
        data = batch(UNPACKED_ON_LOOP_BYTES_MAX, broken=True)
        with pytest.raises(CorruptMessage):
            await load_keys(core.order, data, walk(data), Unpacking(), fetch_offset=0)
        assert core.order.loaded_end == 0

    asyncio.run(scenario())
