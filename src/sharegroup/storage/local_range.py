"""Bytes of a local file that are sent to a socket without being read first (sendfile).

The kernel hands the file's pages to the socket: they are not copied into this process and back.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, Protocol

CAN_SEND: Final = sys.platform != "win32" and hasattr(os, "sendfile")


class OpenedFile(Protocol):
    """A file, as this module sees it."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""
        ...

    def send(self, socket: int, size: int, position: int) -> int:
        """Send up to ``size`` bytes from ``position`` to a socket; raises OSError."""
        ...

    def lend(self, size: int, position: int) -> LocalRange:
        """A range of the file."""
        ...


class Orphan:
    """The descriptor of a file that was closed while ranges of it were to be sent. It is closed
    when the last of them is gone.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        os.close(self._fd)

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""
        return os.pread(self._fd, size, position)

    def send(self, socket: int, size: int, position: int) -> int:
        """Send up to ``size`` bytes from ``position`` to a socket; raises OSError."""
        return os.sendfile(socket, self._fd, position, size)

    def lend(self, size: int, position: int) -> LocalRange:
        """A range of the file."""
        return LocalRange(self, size, position)


class LocalRange:
    """``size`` bytes of a file from ``position`` on. See ``model.environment.FileRange``."""

    __slots__ = ("__weakref__", "_position", "_size", "file")

    def __init__(self, file: OpenedFile, size: int, position: int) -> None:
        self.file = file
        self._size = size
        self._position = position

    def __len__(self) -> int:
        return self._size

    def read(self, size: int, position: int) -> bytes:
        """``size`` bytes from ``position`` in the range; raises OSError."""
        data = self.file.pread(size, self._position + position)
        if len(data) < size:
            raise _too_short(self._position + position + len(data))
        return data

    def part(self, start: int, stop: int) -> LocalRange:
        """The bytes ``start`` … ``stop - 1`` of the range."""
        return self.file.lend(stop - start, self._position + start)

    def send(self, socket: int, size: int, position: int) -> int:
        """Send up to ``size`` bytes from ``position`` in the range. See ``FileRange.send``."""
        sent = self.file.send(socket, size, self._position + position)
        if sent == 0:
            raise _too_short(self._position + position)
        return sent


def _too_short(size: int) -> OSError:
    return OSError(errno.EIO, f"the file ends at {size}")
