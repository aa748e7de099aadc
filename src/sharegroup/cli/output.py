"""Standard output, and how much of it the reader has read.

A pipe buffers 64 KiB that may never be read, and ``head -2`` reads whole blocks. ``consume`` must
know which records were read, so it writes one record at a time into a pipe of one page, and waits
until the reader has emptied it. Linux reports both: the number of unread bytes (FIONREAD), and when
a pipe of one page is empty (it is writable).
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
"""The smallest pipe, and PIPE_BUF: a writable pipe takes this many bytes without blocking."""
_SET_PIPE_BYTES: Final[int | None] = getattr(fcntl, "F_SETPIPE_SZ", None)


class Output:
    """``with Output() as output:`` inside a task.

    Args:
        until_read: :meth:`write` waits until the reader has read everything. This needs a pipe on
            Linux; elsewhere written bytes count as read.
    """

    def __init__(self, *, until_read: bool = False) -> None:
        self._descriptor = sys.stdout.fileno()
        self._is_pipe = _is_pipe(self._descriptor)
        self._until_read = until_read and self._is_pipe and _made_small(self._descriptor)
        self._unwritten = 0
        self._gone = asyncio.Event()

    def __enter__(self) -> Output:
        sys.stdout.flush()
        if self._is_pipe:  # its write end becomes "readable" when the reader closes the pipe
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
        if self.closed:  # for the bytes that Python flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._descriptor)

    @property
    def closed(self) -> bool:
        """Whether the reader has closed the pipe."""
        return self._gone.is_set()

    @property
    def taken(self) -> bool:
        """Whether the reader has read everything that was written."""
        return not self._unwritten and not (self._until_read and _unread(self._descriptor))

    async def write(self, data: bytes) -> bool:
        """Write ``data``. Returns False if the reader closed the pipe before it had read all of it.
        After a cancellation, :attr:`taken` says whether the reader has read everything.
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

    def end(self) -> None:
        """The reader sees the end of the output. Nothing is written after that."""
        if self._is_pipe:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._descriptor)

    async def unless_closed(self, work: Awaitable[T]) -> T | None:
        """The result of ``work``. If the reader closes the pipe first, ``work`` is cancelled and
        the result is None.
        """
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
        """Wait until a page can be written and, with ``until_read``, everything before it was read.
        Returns False if the reader has closed the pipe.
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
    """Whether ``descriptor`` is the write end of a pipe. (A read-write end would always count as
    readable.)"""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return False
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _made_small(descriptor: int) -> bool:
    """Shrink the pipe to one page; returns False if that is not possible."""
    if _SET_PIPE_BYTES is None:
        return False
    try:
        return fcntl.fcntl(descriptor, _SET_PIPE_BYTES, PAGE_BYTES) >= PAGE_BYTES
    except OSError:  # it holds more than a page already, from another writer
        return False


def _unread(descriptor: int) -> int:
    """Unread bytes in the pipe."""
    unread = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, unread)
    return unread[0]


def _mark_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
