"""What the programs share: arguments, the end by SIGTERM, names of topics."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tests.kills.journal import Journal
from tests.servers.admin import SILENT

PARTITIONS = 3
INPUT, OUTPUT, RIVALS = "input", "output", "rivals"
PAUSE_S = 0.02
"""Between two records of a producer."""
PATIENCE_S = 120
"""A client that gets no answer for so long ends, and is started again."""
SESSION_MS = 6_000
GAVE_UP = 3
"""Exit status."""


def pause(seconds: float) -> None:
    """The pace of a client, a seed's random time, or the time between two looks."""
    threading.Event().wait(seconds)


class Work:
    """One life of one program: its arguments are broker, folder, name, life and variant."""

    def __init__(self, bootstrap: str, folder: str, who: str, life: str, variant: str) -> None:
        self.bootstrap = bootstrap
        self.journal = Journal(Path(folder), who, int(life))
        self.variant = variant
        self.random = Random(f"{who}.{life}")
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def settings(self, **more: Any) -> dict[str, Any]:
        """For librdkafka; underscores stand for dots."""
        given = {name.replace("_", "."): value for name, value in more.items()}
        if "transactional_id" in more:
            # Else it forgets the broker when that is away, and its offsets hang for ever
            # (confluentinc/librdkafka#5511).
            given["metadata.recovery.strategy"] = "none"
        return {"bootstrap.servers": self.bootstrap, **given, **SILENT}


def give_up(work: Work, reason: object) -> None:
    """End this life: whoever started it starts another one."""
    work.journal.note("gave up", reason=str(reason))
    sys.exit(GAVE_UP)
