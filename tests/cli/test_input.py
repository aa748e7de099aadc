"""Reading files and pipes from the event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from sharegroup.cli.input import CHUNK_BYTES, chunks, open_input, size_of
from sharegroup.cli.outcome import UsageError


async def read_all(file: BinaryIO) -> bytes:
    return b"".join([chunk async for chunk in chunks(file)])


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom(CHUNK_BYTES * 2 + 17)
    path = tmp_path / "input"
    path.write_bytes(content)
    with open_input(str(path)) as file:
        assert size_of(file) == len(content)
        assert asyncio.run(read_all(file)) == content


def test_a_pipe_is_read_without_blocking_the_loop() -> None:
    read_end, write_end = os.pipe()

    async def command() -> list[bytes]:
        with os.fdopen(read_end, "rb") as file:
            assert size_of(file) is None
            parts = aiter(chunks(file))
            got: list[bytes] = []
            for part in (b"one\n", b"two\n"):
                waiting = asyncio.ensure_future(anext(parts))
                await asyncio.sleep(0)
                assert not waiting.done()
                os.write(write_end, part)
                got.append(await waiting)
            os.close(write_end)
            got += [part async for part in parts]
            return got

    assert asyncio.run(command()) == [b"one\n", b"two\n"]


def test_waiting_for_a_pipe_can_be_cancelled() -> None:
    read_end, write_end = os.pipe()

    async def command() -> bytes:
        with os.fdopen(read_end, "rb") as file:
            waiting = asyncio.ensure_future(anext(aiter(chunks(file))))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            os.write(write_end, b"still here")
            return await anext(aiter(chunks(file)))

    assert asyncio.run(command()) == b"still here"
    os.close(write_end)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file or directory"):
        open_input(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="Is a directory"):
        open_input(str(tmp_path))
