"""A little room on the disk, kept for what makes room.

A topic is deleted by writing the catalog anew, records by writing a checkpoint anew: each needs
room before it frees any. On a full disk this file is given up for that.
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


class Reserve:
    """The file of one data folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"

    def fill(self, content_bytes: int) -> None:
        """Let it hold room for files of so many bytes, each written beside its old self; without
        room there is none to be kept.
        """
        try:
            self._disk.reserve(self._path, BYTES_MIN + 2 * content_bytes)
        except OSError as error:
            logger.debug("no room is kept in %s: %s", self._path, error)

    def spend(self, write: Callable[[], None]) -> None:
        """Do ``write``, and once more with the room kept here when there is no other.

        Raises:
            OSError: as ``write``.
        """
        try:
            write()
        except OSError as error:
            if lack_of(error) is not Lack.ROOM or not self._disk.exists(self._path):
                raise
            self._disk.remove(self._path)
            write()
