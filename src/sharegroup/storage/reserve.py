"""A file that reserves a little room on the disk for operations that free room.

Deleting a topic rewrites the catalog, and deleting records rewrites a checkpoint: both need room
before they free any. On a full disk this file is removed to provide that room. What they leave of
it is reserved again at once: the next append would take it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage.failures import Lack, lack_of

logger = logging.getLogger(__name__)

FILE_NAME: Final = ".reserve"
BYTES_MIN: Final = 64 * 1024
_BLOCK_BYTES: Final = 4096
"""Room for the smallest file on most file systems."""


Spend = Callable[[Callable[[], object]], None]
""":meth:`Reserve.spend`."""


class Reserve:
    """The reserve file of one data folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self._bytes = BYTES_MIN

    def fill(self, content_bytes: int) -> None:
        """Reserve room for replacing files of ``content_bytes`` in all; old and new exist together
        for a moment. If the disk does not have the room, what it has is reserved.
        """
        self._bytes = BYTES_MIN + 2 * content_bytes
        self._fill()

    def _fill(self) -> None:
        size = self._bytes
        while size >= _BLOCK_BYTES:
            try:
                self._disk.reserve(self._path, size)
            except OSError as error:
                logger.debug("%s cannot reserve %d bytes: %s", self._path, size, error)
                if lack_of(error) is not Lack.ROOM:
                    return
            else:
                return
            size //= 2

    def spend(self, write: Callable[[], object]) -> None:
        """Do ``write``. If the disk is full, remove the reserve and do it again.

        Raises:
            OSError: as ``write``.
        """
        try:
            write()
        except OSError as error:
            if lack_of(error) is not Lack.ROOM or not self._disk.exists(self._path):
                raise
            self._disk.remove(self._path)
            try:
                write()
            finally:
                self._fill()
