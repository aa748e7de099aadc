"""What a broker has at a moment, and whether it grows."""

from __future__ import annotations

import json
import os
import re
import statistics
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

MIB: Final = 1 << 20
SCRAPE_S: Final = 10
SAMPLES_MIN: Final = 100
_TASKS: Final = re.compile(r"^sharegroup_event_loop_tasks (\S+)", re.MULTILINE)
_RESIDENT: Final = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker after ``at_s`` seconds.

    Attributes:
        memory_mib: resident.
        internal_mib: what its internal topics take on disk.
        p50_ms, p99_ms: from the send of a record to its delivery, since the last sample.
    """

    at_s: float
    memory_mib: float
    descriptors: int
    threads: int
    tasks: int
    internal_mib: float
    p50_ms: float
    p99_ms: float

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


class Kind(NamedTuple):
    """What may not grow: by so much in all, beside a tenth of what it was."""

    field: str
    unit: str
    slack: float


KINDS: Final = (
    Kind("memory_mib", "MiB", 16),
    Kind("descriptors", "", 16),
    Kind("threads", "", 2),
    Kind("tasks", "", 16),
    Kind("internal_mib", "MiB", 16),
    Kind("p50_ms", "ms", 5),
    Kind("p99_ms", "ms", 50),
)


def sample(at_s: float, pid: int, data: Path, metrics: str, latencies_ms: list[float]) -> Sample:
    """Look at the process, its folder and its metrics.

    Args:
        metrics: the address of its metrics.
        latencies_ms: since the last sample, at least one.
    """
    process = Path("/proc") / str(pid)
    resident = _RESIDENT.search((process / "status").read_text())
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=SCRAPE_S) as answer:
        tasks = _TASKS.search(answer.read().decode())
    assert resident is not None
    assert tasks is not None
    latencies = sorted(latencies_ms)
    return Sample(
        at_s=round(at_s, 1),
        memory_mib=round(int(resident[1]) / 1024, 1),
        descriptors=len(os.listdir(process / "fd")),
        threads=len(os.listdir(process / "task")),
        tasks=int(float(tasks[1])),
        internal_mib=round(internal_bytes(data) / MIB, 2),
        p50_ms=round(statistics.median(latencies), 2),
        p99_ms=round(latencies[int(0.99 * len(latencies))], 2),
    )


def internal_bytes(data: Path) -> int:
    """What the internal topics of a data folder take on disk; files may vanish meanwhile."""
    total = 0
    for file in data.rglob("*"):
        if any(part.startswith("__") for part in file.relative_to(data).parts):
            try:
                total += file.stat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def grown(samples: Sequence[Sample]) -> list[str]:
    """What is more in the last quarter of the time than in the second one, by the medians. A few
    samples say nothing of the time that records take."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    found = []
    for kind in KINDS if len(samples) >= SAMPLES_MIN else KINDS[:-2]:
        before = statistics.median(getattr(one, kind.field) for one in early)
        after = statistics.median(getattr(one, kind.field) for one in late)
        if after > 1.1 * before + kind.slack:
            found.append(f"{kind.field} has grown from {before:g} to {after:g} {kind.unit}".strip())
    return found
