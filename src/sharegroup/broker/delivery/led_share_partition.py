"""One share partition in use: its delivery core, its log, and its exclusive fetch lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sharegroup.broker.deadline_timer import DeadlineTimer
from sharegroup.broker.hot_path_counters import SharePartitionMeter
from sharegroup.model.environment import Clock
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.log import ReadableLog
from sharegroup.share.partition import SharePartition


class LedSharePartition:
    """One share partition in use."""

    __slots__ = (
        "bytes_per_batch",
        "bytes_per_offset",
        "core",
        "crowded",
        "fenced",
        "fetching",
        "key",
        "log",
        "looking_ahead",
        "meter",
        "passed_by",
        "timer",
        "writes",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        log: ReadableLog,
        core: SharePartition,
        clock: Clock,
        due: Callable[[LedSharePartition], None],
    ) -> None:
        self.key = key
        self.log = log
        self.core = core
        self.fetching = False
        """The fetch lock: only one request at a time reads and acquires."""
        self.passed_by = False
        """A fetch found the lock taken: another look is due when it is free."""
        self.fenced = False
        self.looking_ahead = False
        self.writes = 0
        """Changes of the core that are being written."""
        self.crowded = False
        """Too many dead records wait for their letters: nothing is delivered."""
        self.meter = SharePartitionMeter()
        self.bytes_per_offset: float | None = None
        """Bytes per offset of the last read; None before the first read."""
        self.bytes_per_batch = 0.0
        """Bytes per batch of the last read."""
        self.timer = DeadlineTimer(clock, partial(due, self))
        """Calls ``due`` when locks expire."""
