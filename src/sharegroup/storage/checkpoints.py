"""Kafka's small text files of a data folder (Kafka classes CheckpointFile, PartitionMetadataFile,
BrokerMetadata…).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from crc32c import crc32c

from sharegroup.model.environment import Disk
from sharegroup.model.ids import TopicPartition, parse_topic_id, topic_id_text
from sharegroup.model.offsets import OFFSET_MAX

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
"""How far the cleaner has gone in each partition."""
SPARSE: Final = "cleaner-sparse-offset-checkpoint"
"""Ours: below which offset of each partition the cleaner may have removed offsets. This file is
written before a cleaned segment is used; :data:`CLEANED` is written after the last one."""
OF_CLEANER: Final = (CLEANED, SPARSE)
"""Only a folder with compacted logs has them."""
CHECKSUMS: Final = ".crc32c"
CHECKSUM_CHARACTERS: Final = 8
FLIPPED_BITS_MAX: Final = 8
"""Bits of an id that one damaged character may change: its own six, and two of a neighbour's."""
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"

CLEAN_MARKER_CONTENT: Final = json.dumps({"version": 0, "brokerEpoch": -1}).encode()
LEADER_EPOCHS_CONTENT: Final = b"0\n1\n0 0\n"
"""Version 0, one entry: epoch 0 begins at offset 0. A single node never changes its epoch."""


class DamagedCheckpoint(ValueError):
    """A checkpoint file is not what was written; ``reason`` does not name the file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.reason = reason


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; empty when the file is missing.

    Raises:
        DamagedCheckpoint: it cannot be read, or its checksum says that it was changed.
    """
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return {}
    known = _checksums(disk, path)
    try:
        if known and crc32c(content) not in known:
            raise ValueError("its checksum does not match")
        version, count, *lines = content.decode().splitlines()
        if version != "0":
            raise ValueError(f"version {version!r}, not 0")
        if int(count) != len(lines):
            raise ValueError(f"{len(lines)} lines, not {count}")
        return dict(map(_row, lines))
    except ValueError as error:
        raise DamagedCheckpoint(path, str(error)) from error


def _row(line: str) -> tuple[TopicPartition, int]:
    topic, number, text = line.split()
    partition, offset = int(number), int(text)
    if not 0 <= offset <= OFFSET_MAX or partition < 0:
        raise ValueError(f"invalid partition or offset in {line!r}")
    return TopicPartition(topic, partition), offset


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file durably.

    Kafka's format has no checksum. We keep the checksum in a second file, which is written first
    and also holds the checksum of the content that is there: after a crash, or a write that failed,
    one of the two matches.
    """
    rows = [f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())]
    content = "\n".join(["0", str(len(rows)), *rows, ""]).encode()
    before = _checksum_of_valid(disk, path)
    lines = [f"{checksum:08x}\n" for checksum in (*before, crc32c(content))]
    disk.write_file(path + CHECKSUMS, "".join(lines).encode())
    disk.write_file(path, content)


def _checksum_of_valid(disk: Disk, path: str) -> list[int]:
    """The checksum of the content, which is not the last one that is known if a write has failed;
    empty if the content is missing or damaged."""
    try:
        checksum = crc32c(disk.read_file(path))
    except FileNotFoundError:
        return []
    known = _checksums(disk, path)
    return [] if known and checksum not in known else [checksum]


def _checksums(disk: Disk, path: str) -> list[int]:
    """The checksums that the content may have; empty if their file is missing or unreadable."""
    try:
        lines = disk.read_file(path + CHECKSUMS).split()
        return [int(line, 16) for line in lines if len(line) == CHECKSUM_CHARACTERS]
    except (FileNotFoundError, ValueError):
        return []


def partition_metadata(topic_id: UUID) -> bytes:
    """The content of ``partition.metadata``."""
    return f"version: 0\ntopic_id: {topic_id_text(topic_id)}\n".encode()


def is_same_id(found: UUID, topic_id: UUID) -> bool:
    """Whether an id from a file without a checksum is ``topic_id``, possibly with one damaged byte.
    The id of another topic differs in half of its 122 random bits.
    """
    return (found.int ^ topic_id.int).bit_count() <= FLIPPED_BITS_MAX


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
