"""A file that reserves a little room on the disk for operations that free room.

Deleting a topic rewrites the catalog, and deleting records rewrites a checkpoint. The last segment
of a log is deleted after the next one has begun, with a snapshot of the log's producers. All of
this needs room before it frees any. On a full disk this file is removed to provide that room. What
they leave of it is reserved again at once: the next append would take it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage.failures import Lack, lack_of
from sharegroup.storage.producer_snapshot import PRODUCER_BYTES_MAX

logger = logging.getLogger(__name__)

FILE_NAME: Final = ".reserve"
BYTES_MIN: Final = 64 * 1024
_BLOCK_BYTES: Final = 4096
"""Room for the smallest file on most file systems."""
_CHECKPOINT_LINE_BYTES: Final = 64


Spend = Callable[[Callable[[], object]], None]
""":meth:`Reserve.spend`."""


class Reserve:
    """The reserve file of one data folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self._bytes = BYTES_MIN

    def fill(self, catalog_bytes: int, producers: Collection[int]) -> None:
        """Reserve room for replacing the catalog and the checkpoints; old and new exist together
        for a moment. And for the largest snapshot of ``producers``: how many each log has. If the
        disk does not have the room, what it has is reserved.
        """
        content_bytes = catalog_bytes + _CHECKPOINT_LINE_BYTES * len(producers)
        snapshot_bytes = PRODUCER_BYTES_MAX * max(producers, default=0)
        self._bytes = BYTES_MIN + 2 * content_bytes + snapshot_bytes
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
