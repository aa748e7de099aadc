"""Tells a data folder that has lost its ``catalog.json`` from a new one. If it were opened as a new
one, its partitions would belong to no topic.
"""

from __future__ import annotations

import re
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import CLIENT_TEXT_LENGTH_MAX
from sharegroup.storage import checkpoints

CATALOG: Final = "catalog.json"
_PARTITION_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,8})")


def rebuild_command(folder: str) -> str:
    """The command that rebuilds a lost catalog."""
    return f"`sharegroup fsck --data {folder} --repair`"


def check_catalog(disk: Disk, folder: str) -> None:
    """Refuse a folder that has partitions and no catalog.

    Raises:
        ConfigError: the catalog is missing; the message has the command that rebuilds it.
    """
    if disk.exists(f"{folder}/{CATALOG}"):
        return
    found = partition_folders(disk, folder)
    if found:
        raise ConfigError(
            f"{folder}/{CATALOG} is missing, but there are folders of partitions ({found[0]}, "
            f"{len(found)} in all): restore it from a backup, or rebuild it from the folders with "
            f"{rebuild_command(folder)}"
        )


def partition_folders(disk: Disk, folder: str) -> list[TopicPartition]:
    """The partitions that have a folder with a log or a topic id, sorted."""
    found = []
    for name in disk.list(folder):
        key = partition_of(name)
        if key is not None and _is_partition(disk, f"{folder}/{name}"):
            found.append(key)
    return sorted(found)


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose folder is called ``name``; None if it is not a partition's folder."""
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None or len(match[1]) > CLIENT_TEXT_LENGTH_MAX or match[1] in (".", ".."):
        return None
    return TopicPartition(match[1], int(match[2]))


def _is_partition(disk: Disk, folder: str) -> bool:
    try:
        names = disk.list(folder)
    except NotADirectoryError:
        return False
    return any(name.endswith(".log") or name == checkpoints.PARTITION_METADATA for name in names)
