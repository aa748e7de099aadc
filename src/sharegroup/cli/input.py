"""Reads a file, a pipe or a terminal without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

from sharegroup.cli.outcome import UsageError

CHUNK_BYTES: Final = 256 * 1024


def open_input(path: str) -> BinaryIO:
    """The file, or stdin for ``-``.

    Raises:
        UsageError: the file cannot be read.
    """
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def size_of(file: BinaryIO) -> int | None:
    """The bytes that remain to be read of a regular file; None for a pipe or a terminal."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return None
    return max(0, status.st_size - file.tell())


async def chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """The bytes of ``file`` as they come. Cancelling the iteration while it waits loses nothing."""
    descriptor = file.fileno()
    while True:
        await _wait_readable(descriptor)
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _wait_readable(descriptor: int) -> None:
    # A selector and then a read that cannot block. Setting O_NONBLOCK, as asyncio's pipes do, would
    # set it for the shell's terminal too, and a thread blocked in read() could not be cancelled.
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    try:
        loop.add_reader(descriptor, _mark_ready, readable)
    except PermissionError:  # epoll refuses regular files: they are always readable
        await asyncio.sleep(0)
        return
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)


def _mark_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
