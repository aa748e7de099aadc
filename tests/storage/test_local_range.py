"""Ranges of files that are sent without being read: which there are, and how long they hold."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.environment import FileRange
from sharegroup.model.errors import CorruptMessage
from sharegroup.storage import LocalDisk
from sharegroup.storage.local_file import LocalFile
from sharegroup.storage.segment import STORED_BYTES_MIN
from sharegroup.wire.batch import Walk, walk, walk_headers
from tests.storage.support import append_durably, batch, held_in, one_log, opened, run

KIB = 1024
MIB = KIB * KIB
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A connected pair; the first end does not block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def sent(found: FileRange, pair: Pair, position: int = 0) -> bytes:
    """What arrives when all of the range from ``position`` on is sent."""
    ours, theirs = pair
    arrived = b""
    while position < len(found):
        count = found.send(ours.fileno(), len(found) - position, position)
        arrived += theirs.recv(count, socket.MSG_WAITALL)
        position += count
    return arrived


def lent(file: LocalFile, size: int, position: int) -> FileRange:
    found = file.range(size, position)
    assert found is not None
    return found


def test_a_range_is_sent_as_it_lies_in_the_file(tmp_path: Path, pair: Pair) -> None:
    content = os.urandom(MIB)
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(content)
    found = lent(file, 300 * KIB, 1000)
    assert len(found) == 300 * KIB
    assert sent(found, pair) == content[1000 : 1000 + 300 * KIB]
    assert sent(found, pair, 299 * KIB) == content[1000 + 299 * KIB : 1000 + 300 * KIB]
    assert found.read(5, 7) == content[1007:1012]
    file.close()


def test_a_full_socket_takes_nothing(tmp_path: Path, pair: Pair) -> None:
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(bytes(8 * MIB))
    found = lent(file, 8 * MIB, 0)
    with suppress(BlockingIOError):
        while found.send(pair[0].fileno(), 8 * MIB, 0):
            pass
    with pytest.raises(BlockingIOError):
        found.send(pair[0].fileno(), 8 * MIB, 0)
    assert file.range(10, 0) is not None, "that was not the file's fault"
    file.close()


@pytest.mark.parametrize("given_back", [False, True])
def test_a_range_outlives_its_file(tmp_path: Path, pair: Pair, *, given_back: bool) -> None:
    disk = LocalDisk()
    file = disk.open(str(tmp_path / "a"))
    file.append(b"hello world")
    file.sync()
    before = held_in(tmp_path)
    one, other = lent(file, 5, 0), lent(file, 5, 6)
    if given_back:
        assert file.give_back(by_force=False)
        assert sent(one, pair) == b"hello", "it is opened again"
    disk.remove(str(tmp_path / "a"))
    file.close()
    assert (sent(one, pair), other.read(5, 0)) == (b"hello", b"world")
    assert held_in(tmp_path) == before
    del one
    assert sent(other, pair) == b"world"
    del other
    assert held_in(tmp_path) == before - 1, "closed with the last range"


def test_a_part_of_a_range_holds_on_its_own(tmp_path: Path, pair: Pair) -> None:
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(b"hello world")
    whole = lent(file, 9, 2)
    before = whole.part(0, 3)
    del whole
    file.close()
    assert sent(before, pair) == b"llo"
    last = before.part(1, 3)
    del before
    assert (len(last), last.read(2, 0), sent(last, pair)) == (2, b"lo", b"lo")


def test_a_file_that_cannot_be_sent_is_read_from_then_on(tmp_path: Path, pair: Pair) -> None:
    """So that the reader hears of it, and not only the connection."""
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(b"hello")
    found = lent(file, 5, 0)
    os.close(file._fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        found.send(pair[0].fileno(), 5, 0)
    assert file.range(5, 0) is None


def test_a_broken_socket_says_nothing_about_the_file(tmp_path: Path, pair: Pair) -> None:
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(b"hello")
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        lent(file, 5, 0).send(pair[0].fileno(), 5, 0)
    assert file.range(5, 0) is not None
    file.close()


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path, pair: Pair) -> None:
    file = LocalDisk().open(str(tmp_path / "a"))
    file.append(b"hello")
    found = lent(file, 5, 0)
    file.truncate(0)
    with pytest.raises(OSError, match="the file ends at 0"):
        found.send(pair[0].fileno(), 5, 0)
    with pytest.raises(OSError, match="the file ends at 0"):
        found.read(5, 0)
    file.close()


def test_only_checked_batches_are_sent_unread(tmp_path: Path) -> None:
    batches = [batch(bytes(10 * KIB)) for _ in range(40)]
    size = len(batches[0])

    async def main() -> None:
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            await append_durably(log, *batches)
            written = (await log.read(3, 20 * size, stored=True)).stored
            assert written is not None, "this process has checked them"
            assert len(written.range) % size == 0
            assert written.end_offset == 3 + len(written.range) // size
            plain = await log.read(3, 20 * size)
            assert plain.stored is None
            assert written.range.read(len(written.range), 0) == plain.data
            few = await log.read(3, STORED_BYTES_MIN - 1, stored=True)
            assert few.stored is None
            assert few.data
            short = await log.read(39, MIB, stored=True)
            assert (short.stored, len(short.data)) == (None, size)
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            first = await log.read(0, 20 * size, stored=True)
            assert first.stored is None, "nobody has looked at them since the start"
            again = await log.read(0, 20 * size, stored=True)
            assert again.stored is not None
            assert again.stored.range.read(len(again.stored.range), 0) == first.data
            more = await log.read(0, 30 * size, stored=True)
            assert more.stored is None, "a part of them was not read yet"
            everything = await log.read(0, MIB, end_offset=25, stored=True)
            assert everything.stored is not None
            assert everything.stored.end_offset == 25

    run(main())


def damage(folder: Path, position: int) -> None:
    (path,) = folder.glob("*/00000000000000000000.log")
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_damage_is_not_sent(tmp_path: Path) -> None:
    batches = [batch(bytes(10 * KIB)) for _ in range(40)]
    size = len(batches[0])

    async def main() -> None:
        async with opened(tmp_path) as folder:
            await append_durably(await one_log(folder), *batches)
        damage(tmp_path, 20 * size + 100)
        async with opened(tmp_path) as folder:
            log = await one_log(folder)
            for _ in range(2):
                read = await log.read(0, MIB, stored=True)
            assert read.stored is not None
            assert read.stored.end_offset == 20
            assert len(read.stored.range) == 20 * size

    run(main())


def headers_of(path: Path, data: bytes, batch_bytes_min: int = 0) -> Walk | None:
    """The walk over a range with ``data``, from the middle of a file."""
    file = LocalDisk().open(str(path))
    file.append(b"before" + data + b"behind")
    try:
        return walk_headers(lent(file, len(data), 6), batch_bytes_min)
    finally:
        file.close()
        path.unlink()


@given(sizes=st.lists(st.integers(0, 200), max_size=40))
def test_a_walk_over_headers_is_the_walk_over_all(sizes: list[int]) -> None:
    data = b"".join(batch(bytes(size), base_offset=at) for at, size in enumerate(sizes))
    with TemporaryDirectory() as folder:
        assert headers_of(Path(folder) / "a", data) == walk(data)


def test_a_walk_over_headers_refuses_what_is_not_whole_batches(tmp_path: Path) -> None:
    data = batch(b"abc")
    for end in range(1, len(data)):
        with pytest.raises(CorruptMessage):
            headers_of(tmp_path / "a", data[:end])
        with pytest.raises(CorruptMessage):
            headers_of(tmp_path / "a", data + data[:end])


def test_a_walk_over_headers_gives_up_where_batches_are_small(tmp_path: Path) -> None:
    data = batch(b"abc")
    assert headers_of(tmp_path / "a", data * 15, len(data) + 1) is not None, "too few to tell"
    assert headers_of(tmp_path / "a", data * 16, len(data) + 1) is None
    assert headers_of(tmp_path / "a", data * 16, len(data)) is not None
