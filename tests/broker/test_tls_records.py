"""Records of TLS without data: few are taken, a flood of them ends the connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker.network.tls.records import TlsRecords
from sharegroup.model.limits import (
    TLS_DATA_PER_EMPTY_RECORD,
    TLS_EMPTY_RECORDS_MAX,
    TLS_RECORDS_AT_ONCE,
)
from tests.broker.share_wire import until
from tests.broker.test_tls_connections import Hand, Listener, listening, on_both_loops, question
from tests.broker.tls_by_hand import CIPHER, HandMade


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


@given(st.lists(st.integers(0, 300), max_size=200), st.randoms(use_true_random=False))
def test_pieces_are_the_stream_and_every_record_is_counted(
    sizes: list[int], chance: random.Random
) -> None:
    stream, records = b"".join(map(record, sizes)), TlsRecords()
    at, pieces, counts = 0, list[bytes](), list[int]()
    while at < len(stream):
        size = chance.choice((1, 3, 7, 500, 100_000))
        for piece, count in records.cut(stream[at : at + size]):
            pieces.append(piece)
            counts.append(count)
        at += size
    assert b"".join(pieces) == stream
    assert sum(counts) == len(sizes)
    assert all(count <= TLS_RECORDS_AT_ONCE for count in counts)
    assert all(pieces)


def test_how_many_records_may_be_without_data() -> None:
    records = TlsRecords()
    assert records.read(TLS_EMPTY_RECORDS_MAX + 1, [b"x"])
    assert not records.read(1, [])
    records = TlsRecords()
    assert records.read(TLS_EMPTY_RECORDS_MAX, [])
    assert records.read(1, [bytes(TLS_DATA_PER_EMPTY_RECORD)])
    assert records.read(1, [])
    assert not records.read(1, [])


async def connected(listener: Listener, folder: Path) -> tuple[Hand, HandMade]:
    """After the handshake."""
    log = folder / "secrets"
    listener.context.keylog_filename = str(log)
    hand = await listener.hand()
    hand.writer.write(hand.hello())
    hand.writer.write(await hand.finish())
    found = hand.tls.cipher()
    assert found is not None
    assert found[0] == CIPHER
    return hand, HandMade(log)


def closed_for_it(listener: Listener) -> int:
    return listener.broker.parts.counters.statistics().get(("malformed_requests", ""), 0)


@on_both_loops
def test_keys_may_change_some_times(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def scenario(listener: Listener) -> None:
        hand, made = await connected(listener, tmp_path)
        for number in range(TLS_EMPTY_RECORDS_MAX):
            hand.writer.write(made.change() + made.data(question(number)))
            assert await hand.answers(1) == [number]
        assert not closed_for_it(listener)
        hand.writer.write(made.change())
        with pytest.raises(AssertionError, match="closed"):
            await hand.answers(1)
        assert closed_for_it(listener) == 1
        hand.writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
def test_many_small_records_with_data_are_no_flood(tmp_path: Path, loop: Callable[[], Any]) -> None:
    """Each byte a record of its own, all in one packet: a read must not join what they have."""

    async def scenario(listener: Listener) -> None:
        hand, made = await connected(listener, tmp_path)
        asked = b"".join(question(number) for number in range(20))
        hand.writer.write(b"".join(made.data(bytes([byte])) for byte in asked))
        assert await hand.answers(20) == [*range(20)]
        assert not closed_for_it(listener)
        hand.writer.close()

    listening(tmp_path, loop, scenario)


@on_both_loops
@pytest.mark.parametrize("when", ["with the handshake", "after it"])
def test_a_flood_of_changed_keys_ends_early(
    tmp_path: Path, loop: Callable[[], Any], when: str
) -> None:
    """Also from a peer that reads no answer."""

    async def scenario(listener: Listener) -> None:
        listener.context.keylog_filename = str(tmp_path / "secrets")
        hand = await listener.hand()
        hand.writer.write(hand.hello())
        last = await hand.finish()
        made = HandMade(tmp_path / "secrets")
        flood = b"".join(made.change() for _ in range(5_000))
        if when == "after it":
            hand.writer.write(last)
            await until(lambda: bool(listener.broker.connections.all()))
            hand.writer.write(flood)
        else:
            hand.writer.write(last + flood)
        await until(lambda: closed_for_it(listener) == 1)
        await until(lambda: not listener.broker.connections.all())
        answered = 0
        while data := await read_or_reset(hand):
            answered += len(data)
        assert answered < 3 * TLS_EMPTY_RECORDS_MAX * 27 + 1_000
        hand.writer.transport.abort()

    listening(tmp_path, loop, scenario)


async def read_or_reset(hand: Hand) -> bytes:
    try:
        return await asyncio.wait_for(hand.reader.read(1 << 16), 120)
    except ConnectionError:
        return b""
