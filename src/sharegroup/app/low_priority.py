"""A thread for work that must not slow down requests."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_NICE: Final = 10


def low_priority() -> Callable[[Callable[[], None]], Awaitable[None]]:
    """Runs work in one thread that gets a core when no other thread needs it (on Linux, where each
    thread has a priority of its own)."""
    executor = ThreadPoolExecutor(1, "low-priority", _give_way)
    return lambda work: asyncio.get_running_loop().run_in_executor(executor, work)


def _give_way() -> None:
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
