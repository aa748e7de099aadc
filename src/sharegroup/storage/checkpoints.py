"""Kafka's small text files of a data folder (Kafka classes CheckpointFile, PartitionMetadataFile,
BrokerMetadata…).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.ids import TopicPartition, parse_topic_id, topic_id_text

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
"""How far compaction has gone in each partition: below it offsets may be missing."""
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"

CLEAN_MARKER_CONTENT: Final = json.dumps({"version": 0, "brokerEpoch": -1}).encode()
LEADER_EPOCHS_CONTENT: Final = b"0\n1\n0 0\n"
"""Version 0, one entry: epoch 0 begins at offset 0. One embedded node leads for ever."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none when it is missing or damaged (recovery then looks at
    everything).
    """
    try:
        version, _, *lines = disk.read_file(path).decode().splitlines()
        if version != "0":
            return {}
        rows = [line.split() for line in lines]
        return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}
    except (FileNotFoundError, ValueError):
        return {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file durably."""
    rows = [f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())]
    disk.write_file(path, "\n".join(["0", str(len(rows)), *rows, ""]).encode())


def partition_metadata(topic_id: UUID) -> bytes:
    """The content of ``partition.metadata``."""
    return f"version: 0\ntopic_id: {topic_id_text(topic_id)}\n".encode()


def read_topic_id(disk: Disk, folder: str) -> UUID | None:
    """The topic id in a partition's folder; None when the file is missing or cut short."""
    try:
        text = disk.read_file(f"{folder}/{PARTITION_METADATA}").decode()
        return parse_topic_id(text.split("topic_id:")[1].strip())
    except (FileNotFoundError, IndexError, ValueError):
        return None


def meta_properties(cluster_id: str, node_id: int) -> bytes:
    """The content of ``meta.properties``, version 1 (KRaft)."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n".encode()
