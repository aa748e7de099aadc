"""Draws what a broker had over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from tests.soak.samples import Sample

PANELS: Final = (
    ("memory, MiB", ("memory_mib",)),
    ("descriptors, tasks, threads", ("descriptors", "tasks", "threads")),
    ("internal topics on disk, MiB", ("internal_mib",)),
    ("send to delivery, ms", ("p50_ms", "p99_ms")),
)


def draw(samples: Sequence[Sample], file: Path) -> None:
    """Write a PNG with a panel for each kind."""
    figure = Figure(figsize=(9, 9))
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    minutes = [one.at_s / 60 for one in samples]
    for panel, (title, names) in zip(panels, PANELS, strict=True):
        for name in names:
            values = [getattr(one, name) for one in samples]
            panel.plot(minutes, values, label=name.removesuffix("_ms"), linewidth=1)
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        if len(names) > 1:
            panel.legend(loc="upper right", fontsize=8)
    panels[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(file, dpi=100)
