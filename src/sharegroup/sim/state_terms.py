"""Looks into a cluster's logs whether each part of the nodes' state has one writer at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sharegroup.broker.internal_topics import IN_CLUSTER_PREFIX
from sharegroup.fleet.terms import Owner
from sharegroup.model.errors import CorruptMessage
from sharegroup.sim.disk import MemoryDisk
from sharegroup.upstream.owned_batches import OwnedBatch, batches_in

OWNED: Final = "share_group_state", "consumer_offsets"
"""Topics whose batches name their owner."""


def overlaps(disk: MemoryDisk, data: str) -> Iterator[str]:
    """A line for each batch in a cluster's logs that an owner has written after the claim of the
    next one.

    Args:
        disk: of the cluster's broker.
        data: its data folder.
    """
    for folder in disk.list(data):
        if folder.removeprefix(IN_CLUSTER_PREFIX).rpartition("-")[0] in OWNED:
            yield from overlaps_of(folder, _batches(disk, f"{data}/{folder}"))


def overlaps_of(name: str, batches: Iterable[OwnedBatch]) -> Iterator[str]:
    """A line for each batch of a log that its owner has written after the claim of the next one. It
    would not count; and the cluster refuses it, by the epoch of its producer.

    Args:
        name: of the log, as the line says it.
    """
    owner: Owner | None = None
    for batch in batches:
        if batch.owner is None or batch.owner == owner:
            continue
        if owner is not None and batch.owner.term <= owner.term:
            if not batch.records and not batch.released:
                continue  # a claim: two claimed at a time, and this one claims again
            yield (
                f"{name}: at offset {batch.base_offset} node {batch.owner.node_id} "
                f"writes in term {batch.owner.term}, after term {owner.term} has begun"
            )
        else:
            owner = batch.owner


def _batches(disk: MemoryDisk, folder: str) -> Iterator[OwnedBatch]:
    for name in disk.list(folder):
        if not name.endswith(".log"):
            continue
        try:
            yield from batches_in(disk.read_file(f"{folder}/{name}"))
        except CorruptMessage:
            continue  # a torn end, which nobody was told of
