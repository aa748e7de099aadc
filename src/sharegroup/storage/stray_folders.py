"""Which folders in a data folder belong to no topic, and what a start does with them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.ids import TopicPartition
from sharegroup.storage import checkpoints
from sharegroup.storage.catalog import Facts
from sharegroup.storage.partition_folders import PartitionFolders
from sharegroup.storage.recovery import Recovered

_PARTITION_FOLDER: Final = re.compile(r"(.+)-(\d+)")
_NEVER_DELETED: Final = 2**31


def clear(
    disk: Disk,
    root: str,
    names: Sequence[str],
    facts: Facts,
    folders: PartitionFolders,
    recovered: Recovered,
    new_id: Callable[[], UUID],
) -> None:
    """Remove folders that a deletion has left, and set aside folders that no topic owns.

    Args:
        names: the names of the files and folders in the data folder ``root``.
        new_id: random ids, for the names of stray folders without a topic id.

    Raises:
        OSError: the disk failed.
    """
    for name in names:
        if name.endswith("-delete"):
            disk.remove(f"{root}/{name}")
        match = _PARTITION_FOLDER.fullmatch(name)
        if match is None:
            continue
        key = TopicPartition(match[1], int(match[2]))
        topic = facts.topics.get(key.topic)
        found = checkpoints.read_topic_id(disk, folders.path_of(key))
        if (
            topic is None
            or key.partition >= topic.partitions
            or (found is not None and not checkpoints.is_same_id(found, topic.topic_id))
        ):
            # ``deleted`` has the first deleted partition of each topic id.
            if found is not None and key.partition >= facts.deleted.get(found, _NEVER_DELETED):
                disk.remove(f"{root}/{name}")
                continue
            old, aside = folders.aside(key, found or new_id(), "stray")
            disk.rename(old, aside)
            recovered.report(
                logging.WARNING, f"{name} belongs to no topic and is set aside as {aside}"
            )
