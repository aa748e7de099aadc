"""What the programs share: arguments, the end by SIGTERM, names of topics."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from confluent_kafka import KafkaException

from sharegroup.model.errors import SharegroupError
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


def run_member(
    confluent: Callable[[Work], None], ours: Callable[[Work], Coroutine[Any, Any, None]]
) -> None:
    """One life of a member, with the client that its variant names."""
    work = Work(*sys.argv[1:])
    work.journal.note("begins")
    try:
        if work.variant == "ours":
            asyncio.run(ours(work))
        else:
            confluent(work)
    except (SharegroupError, KafkaException) as error:
        give_up(work, error)
    work.journal.note("ends")


def note_answers(work: Work, errors: Mapping[int, object]) -> None:
    """Note what became of a member's answers. ``errors``: by partition, None for success."""
    refused = {partition: str(error) for partition, error in errors.items() if error}
    done = [partition for partition in errors if partition not in refused]
    work.journal.note("answered", done=done, refused=refused)


def give_up(work: Work, reason: object) -> None:
    """End this life: whoever started it starts another one."""
    work.journal.note("gave up", reason=str(reason))
    sys.exit(GAVE_UP)
