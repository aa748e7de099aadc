"""Which node is to own which state partition. The elected member of the nodes' group decides it at
each rebalance, and tells all nodes the whole map.

The map is balanced: the nodes have as many partitions each, or one more. It is sticky: a partition
changes hands only if its node is gone or drains, or has more than its share. What changes hands
gets a higher *epoch*, which clients see as the leader epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Owned(NamedTuple):
    """Who owns a partition, and since which epoch."""

    node_id: int
    epoch: int


OwnerMap = Mapping[int, Owned]
"""Partition → who owns it."""


def assign(
    before: OwnerMap,
    partitions: int,
    nodes: Collection[int],
    draining: Collection[int] = (),
    epoch: int = 0,
) -> dict[int, Owned]:
    """The next map.

    Args:
        before: the map until now; partitions that nobody had are not in it.
        nodes: those that are there, at least one.
        draining: of these, those that want to give everything up. If all of them do, none does.
        epoch: of partitions that change hands. It must be above all epochs that there were, since
            clients and the durable state remember these.
    """
    staying = sorted(set(nodes) - set(draining)) or sorted(nodes)
    shares = _shares(before, partitions, staying)
    after: dict[int, Owned] = {}
    left = dict(shares)
    open_ones: list[int] = []
    for partition in range(partitions):
        owned = before.get(partition)
        if owned is not None and left.get(owned.node_id, 0) > 0:
            after[partition] = owned
            left[owned.node_id] -= 1
        else:
            open_ones.append(partition)
    takers = [node for node in staying for _ in range(left[node])]
    for partition, node in zip(open_ones, takers, strict=True):
        after[partition] = Owned(node, epoch)
    return dict(sorted(after.items()))


def _shares(before: OwnerMap, partitions: int, nodes: Collection[int]) -> dict[int, int]:
    """How many partitions each node gets. Those that have most now get the ones that are left over:
    so fewest change hands."""
    held = dict.fromkeys(nodes, 0)
    for partition, owned in before.items():
        if partition < partitions and owned.node_id in held:
            held[owned.node_id] += 1
    least, more = divmod(partitions, len(held))
    by_held = sorted(held, key=lambda node: (-held[node], node))
    return {node: least + (place < more) for place, node in enumerate(by_held)}


def newest(maps: Collection[OwnerMap]) -> dict[int, Owned]:
    """Of what several nodes remember, the latest owner of each partition."""
    found: dict[int, Owned] = {}
    for one in maps:
        for partition, owned in one.items():
            known = found.get(partition)
            if known is None or (owned.epoch, owned.node_id) > (known.epoch, known.node_id):
                found[partition] = owned
    return found
