"""What a seed means: one query over one queue, its rule for each record, and what will hit it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ANCHOR_MS = 600_000
"""The first record of each partition is released after this delay, longer than any round: so the
group's start offset stays before it, and the broker still knows the state of all others."""
BATCHES = 12


class Mode(StrEnum):
    """How the query's records are acknowledged."""

    IMPLICIT = "implicit"
    FOREACH = "foreach"
    """`foreachBatch` writes the results, then hands the decisions over."""
    SINK = "sink"
    """The sink `kafka-share` writes the results to a topic and takes the decisions."""
    CLAIM = "claim"
    """Records are written down and accepted before they are processed."""

    @property
    def is_answered(self) -> bool:
        """Whether the query gives an answer for each record."""
        return self in (Mode.FOREACH, Mode.SINK)


class Fault(StrEnum):
    """What happens to a running query."""

    KILL_DRIVER = "the driver's program is killed"
    KILL_SOURCE = "a source process is killed"
    KILL_WORKER = "a worker process is killed"
    FAIL_TASKS = "tasks fail until the query gives up"
    FAIL_SINK = "the sink fails after it has written"
    STOP = "the query is stopped"
    KILL_BROKER = "the broker is killed and started again"
    BROKER_AWAY = "the broker is away for longer than a lock"
    FREEZE_SOURCE = "a source process stands still for longer than a lock"
    MOVE = "the checkpoint is moved to another place"
    COPY = "the checkpoint is copied"
    RESTORE = "the checkpoint is replaced by its old copy"


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that comes ``after`` so many more batches have begun, and ``delay_s`` later."""

    fault: Fault
    after: int
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """All that a seed decides. Records are numbered from 0; the first ``partitions`` are anchors,
    record ``p`` being the first one of partition ``p``."""

    seed: int
    mode: Mode
    partitions: int
    per_batch: int
    strikes: tuple[Strike, ...]

    @property
    def name(self) -> str:
        """Of its topic, its group and its folder."""
        return f"seed-{self.seed}"

    @property
    def results(self) -> str:
        """The topic of its results, where they go to one."""
        return f"{self.name}-results"

    @property
    def records(self) -> int:
        """How many numbers are produced."""
        return BATCHES * self.per_batch

    @property
    def anchors(self) -> int:
        """Records that are never finished; nothing is held back where the source answers."""
        return self.partitions if self.mode.is_answered else 0

    @property
    def last_lags(self) -> list[int | None]:
        """What is left in each partition when all is done."""
        return [1 if self.anchors else 0] * self.partitions

    @property
    def is_restored(self) -> bool:
        """Whether it goes back to an old checkpoint, and batch ids begin again."""
        return any(strike.fault is Fault.RESTORE for strike in self.strikes)

    def decision(self, number: int, delivery_count: int) -> str:
        """The answer for this record, delivered for the ``delivery_count``-th time."""
        if not self.mode.is_answered:
            return "accept"
        if number < self.partitions:
            return "release"
        if number % 7 == 3:
            return "reject"
        return "release" if number % 5 == 2 and delivery_count < 2 else "accept"


FIRST = (
    Fault.KILL_DRIVER,
    Fault.KILL_SOURCE,
    Fault.FAIL_SINK,
    Fault.BROKER_AWAY,
    Fault.KILL_WORKER,
    Fault.FREEZE_SOURCE,
    Fault.FAIL_TASKS,
    Fault.KILL_BROKER,
    Fault.MOVE,
    Fault.STOP,
    Fault.COPY,
)
SECOND = tuple(one for one in FIRST if one not in (Fault.KILL_DRIVER, Fault.COPY))
"""A new JVM takes longer than all else, so no seed gets two."""


def lane_of(seed: int) -> Lane:
    """The lane of ``seed``: each fault comes first in one of eleven, in each mode in one of 44."""
    chance = random.Random(seed)
    mode = list(Mode)[seed % len(Mode)]
    first = FIRST[seed % len(FIRST)]
    second = Fault.RESTORE if first is Fault.COPY else chance.choice(SECOND)
    if second is Fault.RESTORE and mode is Mode.CLAIM:  # docs/delivery.md: claims since are lost
        second = Fault.MOVE
    return Lane(
        seed=seed,
        mode=mode,
        partitions=chance.randint(1, 3),
        per_batch=chance.randint(30, 80),
        strikes=tuple(
            Strike(fault, chance.randint(2, 4), chance.uniform(0, 0.5)) for fault in (first, second)
        ),
    )


class LaneFolder:
    """Where a lane keeps its files: results by batch, the query's state, flags for its program."""

    def __init__(self, folder: Path, lane: Lane) -> None:
        self.root = folder / lane.name
        self.sink = self.root / "sink"
        self.copy = self.root / "state-copied"
        self.finish = self.root / "finish"
        self.pause = self.root / "pause"
        self.paused = self.root / "paused"
        self.fail_tasks = self.root / "fail-tasks"
        self.fail_sink = self.root / "fail-sink"
        self._state = self.root / "state"

    def prepare(self) -> None:
        """Make the folders."""
        self.sink.mkdir(parents=True)
        self.use_state("state-0")

    @property
    def state(self) -> Path:
        """The folder of the checkpoint and of the decisions on their way, as it is now."""
        return self.root / self._state.read_text()

    def use_state(self, name: str) -> None:
        """Let the next start of the query work in this folder."""
        (self.root / name).mkdir(exist_ok=True)
        self._state.write_text(name)

    @property
    def checkpoint(self) -> Path:
        return self.state / "checkpoint"

    @property
    def acks(self) -> Path:
        """The decisions on their way."""
        return self.state / "acks"

    @property
    def claims(self) -> Path:
        """What is accepted and not processed yet."""
        return self.state / "claims"

    def batches(self) -> int:
        """How many batches of the checkpoint have begun."""
        begun = (self.checkpoint / "offsets").glob("[0-9]*")
        return max((int(entry.name) + 1 for entry in begun), default=0)
