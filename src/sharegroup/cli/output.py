"""Our standard output, and what its reader has taken of it.

A pipe takes 64 KiB that nobody may ever read, and ``head -2`` reads whole blocks. Whoever answers
for what was read, as ``consume`` does, writes one record at a time into a pipe of one page, and
waits until the reader has emptied it. Linux tells both: how much is unread (FIONREAD), and when a
pipe of one page is empty (it can be written to).
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import stat
import sys
import termios
from collections.abc import Awaitable
from types import TracebackType
from typing import Final, TypeVar

T = TypeVar("T")

PAGE_BYTES: Final = 4096
"""The smallest pipe, and PIPE_BUF: a pipe that can be written to takes so much without blocking."""
_SET_PIPE_BYTES: Final[int | None] = getattr(fcntl, "F_SETPIPE_SZ", None)


class Output:
    """``with Output() as output:`` inside a task.

    Args:
        until_read: :meth:`write` waits until the reader has taken all, where that can be known:
            in a pipe on Linux. Elsewhere what is written counts as taken.
    """

    def __init__(self, *, until_read: bool = False) -> None:
        self._descriptor = sys.stdout.fileno()
        self._is_pipe = _is_pipe(self._descriptor)
        self._until_read = until_read and self._is_pipe and _made_small(self._descriptor)
        self._unwritten = 0
        self._gone = asyncio.Event()

    def __enter__(self) -> Output:
        sys.stdout.flush()
        if self._is_pipe:  # the end that is written to becomes "readable" when its reader leaves
            asyncio.get_running_loop().add_reader(self._descriptor, self._reader_left)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_pipe:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        if self.closed:  # for what Python flushes at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._descriptor)

    @property
    def closed(self) -> bool:
        """Nobody reads any more."""
        return self._gone.is_set()

    @property
    def taken(self) -> bool:
        """The reader has all that was to be written."""
        return not self._unwritten and not (self._until_read and _unread(self._descriptor))

    async def write(self, data: bytes) -> bool:
        """Write; False when the reader left before it had all. May be cancelled: :attr:`taken`
        tells then whether the reader has all.
        """
        self._unwritten = len(data)
        try:
            if self._is_pipe:
                await self._write_pages(data)
            else:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
                self._unwritten = 0
        except (BrokenPipeError, ConnectionResetError):
            self._reader_left()
        return self.taken

    async def unless_closed(self, work: Awaitable[T]) -> T | None:
        """What ``work`` returns, or None when the reader left first and cancelled it."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for one in (working, leaving):
                one.cancel()
            await asyncio.wait((working, leaving))

    async def _write_pages(self, data: bytes) -> None:
        for start in range(0, len(data), PAGE_BYTES):
            if not await self._writable():
                return
            page = data[start : start + PAGE_BYTES]
            os.write(self._descriptor, page)
            self._unwritten -= len(page)
        if self._until_read:
            await self._writable()

    async def _writable(self) -> bool:
        """A page can be written, and with ``until_read`` all before it was read; False when the
        reader has left.
        """
        if self._until_read and not _unread(self._descriptor):
            return not self.closed
        loop = asyncio.get_running_loop()
        writable = loop.create_future()
        loop.add_writer(self._descriptor, _mark_ready, writable)
        try:
            await writable
        finally:
            loop.remove_writer(self._descriptor)
        return not self.closed

    def _reader_left(self) -> None:
        self._gone.set()
        if self._is_pipe:
            asyncio.get_running_loop().remove_reader(self._descriptor)


def _is_pipe(descriptor: int) -> bool:
    """A pipe's end that can only be written to: the other kind would be readable by itself."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return False
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _made_small(descriptor: int) -> bool:
    """Make the pipe one page large; False where that cannot be."""
    if _SET_PIPE_BYTES is None:
        return False
    try:
        return fcntl.fcntl(descriptor, _SET_PIPE_BYTES, PAGE_BYTES) >= PAGE_BYTES
    except OSError:  # it holds more by now, from somebody else
        return False


def _unread(descriptor: int) -> int:
    """Bytes in the pipe that nobody has read."""
    unread = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, unread)
    return unread[0]


def _mark_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
