"""Epochs of share groups and of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import Final

FIRST_EPOCH: Final = 1
"""The epoch of a group that nobody has joined (Kafka class ModernGroup)."""

JOIN_EPOCH: Final = 0
"""A member that joins names this epoch."""

LEAVE_EPOCH: Final = -1
"""A member that leaves names this epoch."""
