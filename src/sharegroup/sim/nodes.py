"""Whose code runs in a simulation: a broker or a client that can be killed."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

NODE: Final[ContextVar[str]] = ContextVar("node", default="")
"""The node's name. Its tasks and timers inherit it."""
