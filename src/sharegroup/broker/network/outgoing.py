"""What is to be written to one connection: bytes, and ranges of files.

A range goes from the file to the socket without being read (``FileRange.send``), as much as the
socket takes. When the socket takes no more, a few bytes are read and given to the transport, which
tells when they have left. So the transport alone waits for the socket. Ranges are read if the
connection has no socket of its own (``sim``), and under TLS, whose bytes are not those of the file.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sharegroup.model.environment import FileRange

Chunk = bytes | memoryview | FileRange

LENGTH_BYTES: Final = 4
"""The length field in front of a frame."""

_WAITING_BYTES: Final = 16 * 1024
"""Bytes given to the transport when the socket is full."""
_READ_BYTES: Final = 256 * 1024
"""Bytes read at once where a range cannot be sent."""
_JOINED_BYTES: Final = 16 * 1024
"""Chunks are joined up to so many bytes, the data of a TLS record: TLS makes a record of each chunk
that it is given."""


def _bare_socket(transport: asyncio.Transport) -> Any:
    """The socket that takes bytes as they are; None if the transport has no such socket."""
    if transport.get_extra_info("sslcontext") is not None:
        return None
    return transport.get_extra_info("socket")


class Slot:
    """One request's place in the queue of answers. ``held_bytes``: the room of the request."""

    __slots__ = ("chunks", "held_bytes", "size")

    def __init__(self, frame: bytes) -> None:
        self.chunks: Sequence[Chunk] | None = None
        self.size = 0
        self.held_bytes = LENGTH_BYTES + len(frame)


class OutgoingChunks:
    """The queue of chunks to be written. ``size``: how many bytes are in it."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._at = 0  # this much of the first chunk, a range, has left
        self._bare = False  # the transport pauses as soon as it keeps a byte
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, chunks: Iterable[Chunk], size: int) -> None:
        """Queue chunks of ``size`` bytes in all."""
        self._chunks.extend(chunks)
        self.size += size

    def clear(self) -> None:
        """Forget everything; nothing more is written."""
        self._chunks.clear()
        self._at = self.size = 0

    def write(self, transport: asyncio.Transport, bytes_max: int | None) -> None:
        """Write up to ``bytes_max`` bytes; less if the socket is full and a range is next, and then
        the transport has paused writing. None: write everything, reading what is in files.

        Raises:
            OSError: a file cannot be read, or the socket is broken; the connection is of no use.
        """
        room = self.size if bytes_max is None else bytes_max
        until = self.size - room
        while self._chunks and (room := self.size - until) > 0:
            first = self._chunks[0]
            socket = None if bytes_max is None else _bare_socket(transport)
            if isinstance(first, bytes | memoryview):
                self._write_bytes(transport, room, read=socket is None)
            elif socket is None or transport.is_closing():
                self._write_bytes(transport, room, read=True)
            elif not self._send(
                transport, socket.fileno(), first, min(room, len(first) - self._at)
            ):
                return
        if self._bare and not self._chunks:
            self._bare = False
            transport.set_write_buffer_limits()

    def _write_bytes(self, transport: asyncio.Transport, room: int, *, read: bool) -> None:
        """Write chunks together, ``room`` bytes at most. At a range, read it (``read``) or end."""
        size, chunks = self.size, self._next_bytes(room, read=read)
        if size - self.size <= _JOINED_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)

    def _next_bytes(self, room: int, *, read: bool) -> list[bytes | memoryview]:
        """Take chunks, ``room`` bytes at most. See :meth:`_write_bytes`."""
        chunks: list[bytes | memoryview] = []
        while self._chunks and room > 0:
            chunk = self._chunks[0]
            if not isinstance(chunk, bytes | memoryview):
                if not read:
                    break
                chunk = self._read(chunk, min(room, len(chunk) - self._at, _READ_BYTES))
            else:
                if len(chunk) > room:
                    view = memoryview(chunk)
                    self._chunks[0], chunk = view[room:], view[:room]
                else:
                    self._chunks.popleft()
                self.size -= len(chunk)
            chunks.append(chunk)
            room -= len(chunk)
        return chunks

    def _send(
        self, transport: asyncio.Transport, socket: int, file: FileRange, wanted: int
    ) -> bool:
        """Send a part of a range. Returns False if the transport has paused writing."""
        if not self._bare:
            self._bare = True
            transport.set_write_buffer_limits(high=0)  # it pauses as soon as the socket is full
        if transport.get_write_buffer_size():
            return False
        try:
            sent = file.send(socket, wanted, self._at)
            self._left(file, sent)
        except BlockingIOError:
            sent = 0
        if sent < wanted:
            transport.write(self._read(file, min(wanted - sent, _WAITING_BYTES)))
        return not transport.get_write_buffer_size()

    def _read(self, file: FileRange, size: int) -> bytes:
        data = file.read(size, self._at)
        self._left(file, size)
        return data

    def _left(self, file: FileRange, size: int) -> None:
        self.size -= size
        self._at += size
        if self._at == len(file):
            self._chunks.popleft()
            self._at = 0
