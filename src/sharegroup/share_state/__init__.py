"""Durable state: what the share coordinator remembers of each share partition (KIP-932).

Start with :mod:`sharegroup.share_state.coordinator`.
"""

from __future__ import annotations

from sharegroup.share_state.answers import ReadResult, StateSummary
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.partitioning import partition_for
from sharegroup.share_state.records import (
    KeyedRecord,
    ShareSnapshot,
    ShareUpdate,
    StateRecord,
)

__all__ = [
    "KeyedRecord",
    "ReadResult",
    "ShareCoordinator",
    "ShareSnapshot",
    "ShareUpdate",
    "StateRecord",
    "StateSummary",
    "partition_for",
]
