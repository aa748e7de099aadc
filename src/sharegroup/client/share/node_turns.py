"""Which node a strict fetch asks next, and for how long it may wait there.

A strict limit (KIP-1206) holds for a single request, so the nodes are asked one after the other. A
request that waited at a node without records would leave records of other nodes lying.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sharegroup.client.core.share_session import FetchLimits

WAIT_MS_MIN: Final = 50
"""The shortest wait at a node, or a member without records would ask all the time."""


class NodeTurns:
    """Each node in turn. Only when no node had records does a request wait, at each node for its
    share of the time."""

    def __init__(self) -> None:
        self._last = -1
        self._empty = 0

    def next(self, nodes: Iterable[int], limits: FetchLimits) -> tuple[int, FetchLimits]:
        """The node whose turn it is, and the limits of its request.

        Args:
            nodes: at least one.
            limits: of the whole fetch.
        """
        ordered = sorted(nodes)
        self._last = next((node for node in ordered if node > self._last), ordered[0])
        several = len(ordered)
        if several == 1:
            return self._last, limits
        whole_ms = limits.max_wait_ms
        wait_ms = min(whole_ms, max(WAIT_MS_MIN, whole_ms // several))
        return self._last, replace(limits, max_wait_ms=wait_ms if self._empty >= several else 0)

    def brought(self, records: bool) -> None:
        """Say whether the last request has brought records."""
        self._empty = 0 if records else self._empty + 1
