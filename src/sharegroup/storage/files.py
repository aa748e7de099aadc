"""Small files of a partition that are synced together with its log."""

from __future__ import annotations

from sharegroup.model.environment import Disk, DiskFile


def write_unsynced(disk: Disk, path: str, data: bytes, files: list[DiskFile]) -> None:
    """Replace a file's content and add the open file to ``files``; it is durable once the caller
    has synced it.
    """
    file = disk.open(path)
    files.append(file)
    file.truncate(0)
    file.append(data)
