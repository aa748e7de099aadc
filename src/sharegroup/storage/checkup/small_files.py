"""Strict readers of Kafka's small text files in a data folder. A start uses whatever it can read;
a check reports what is wrong. Checkpoints of offsets have one reader, ``storage.checkpoints``.
"""

from __future__ import annotations

from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.ids import parse_topic_id
from sharegroup.storage import checkpoints


def read_topic_id(disk: Disk, folder: str) -> UUID | None:
    """The topic id in a partition's folder; None if the file is missing or damaged."""
    path = f"{folder}/{checkpoints.PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    try:
        lines = disk.read_file(path).decode().splitlines()
        values = dict(line.split(": ", 1) for line in lines)
        return parse_topic_id(values["topic_id"])
    except (KeyError, ValueError):
        return None


def leader_epochs_problem(disk: Disk, folder: str) -> str | None:
    """What is wrong with ``leader-epoch-checkpoint``; None if the file is right."""
    path = f"{folder}/{checkpoints.LEADER_EPOCHS}"
    if not disk.exists(path):
        return "is missing"
    try:
        version, count, *lines = disk.read_file(path).decode().splitlines()
        rows = [tuple(map(int, line.split())) for line in lines]
    except ValueError as error:
        return f"cannot be used: {error}"
    well_formed = version == "0" and count == str(len(rows)) and all(len(row) == 2 for row in rows)
    return None if well_formed else "is not a list of leader epochs"


def read_meta_properties(disk: Disk, root: str) -> dict[str, str] | None:
    """The properties in ``meta.properties``; None if it is missing or damaged."""
    path = f"{root}/{checkpoints.META_PROPERTIES}"
    if not disk.exists(path):
        return None
    try:
        lines = disk.read_file(path).decode().splitlines()
        values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    except ValueError:
        return None
    whole = values.get("version") == "1" and values.get("cluster.id")
    return values if whole and values.get("node.id", "").isdecimal() else None
