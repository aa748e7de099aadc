"""Which files of a log the next sync must cover, besides its active segment."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.environment import DiskFile


class UnsyncedFiles:
    """Files written when the log rolled: sealed segments, which stay open for reads, and side files
    (indexes, producer snapshots), which are closed once they are synced.
    """

    def __init__(self) -> None:
        self._unsynced: list[DiskFile] = []
        self._to_close: list[DiskFile] = []

    def __bool__(self) -> bool:
        return bool(self._unsynced)

    def add_sealed(self, file: DiskFile) -> None:
        """Add the ``.log`` file of a sealed segment."""
        self._unsynced.append(file)

    def add_side_files(self, files: Sequence[DiskFile]) -> None:
        """Add files that are closed once they are synced."""
        self._unsynced += files
        self._to_close += files

    def close_after_sync(self, files: Sequence[DiskFile]) -> None:
        """Close these files after the next sync; the caller syncs them itself."""
        self._to_close += files

    def take(self) -> list[DiskFile]:
        """The files to sync now; they no longer count as unsynced."""
        files, self._unsynced = self._unsynced, []
        return files

    def put_back(self, files: Sequence[DiskFile]) -> None:
        """The sync of these files has not begun: the next :meth:`take` returns them again."""
        self._unsynced = [*files, *self._unsynced]

    def close_synced(self) -> None:
        """A sync has ended: close the side files that it covered."""
        closing, self._to_close = self._to_close, []
        for file in closing:
            if file in self._unsynced:
                self._to_close.append(file)
            else:
                file.close()

    def close(self) -> None:
        """Close all side files, synced or not."""
        for file in self._to_close:
            file.close()
