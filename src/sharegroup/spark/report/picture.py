"""A query's picture as a PNG: records, duration by phase, lag and redeliveries over time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sharegroup.model.errors import ConfigError
from sharegroup.model.printable import printable
from sharegroup.spark.report.checkpoint import Checkpoint, ReportedBatch
from sharegroup.spark.report.series import (
    ACQUIRE,
    LAG,
    REDELIVERED,
    ROWS,
    RUN,
    SETTLE,
    UNCONFIRMED,
    Series,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, GRID = "#22313f", "#8795a1", "#e8ecef"
COLOURS: Final = {
    ROWS: "#2e86ab",
    ACQUIRE: "#edae49",
    RUN: "#2e86ab",
    SETTLE: "#66a182",
    LAG: "#7b4b94",
    REDELIVERED: "#d1495b",
    UNCONFIRMED: "#e07a1f",
}


def check_can_draw() -> None:
    """Raises ConfigError: matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ConfigError(
            "matplotlib is not installed, which draws the picture: pip install 'sharegroup[plot]', "
            "or leave --output out"
        )


def draw(path: Path, checkpoint: Checkpoint) -> None:
    """Write the PNG.

    Raises:
        ConfigError: matplotlib is missing, or the file cannot be written.
    """
    check_can_draw()
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    batches = checkpoint.batches
    with mpl.rc_context(
        {
            "font.size": 9,
            "text.color": INK,
            "axes.edgecolor": FAINT,
            "axes.labelcolor": FAINT,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "axes.axisbelow": True,
            "grid.color": GRID,
            "xtick.color": FAINT,
            "ytick.color": FAINT,
        }
    ):
        figure = Figure(figsize=(10, 8), dpi=120, facecolor="white", layout="constrained")
        first, second, third, fourth = figure.subplots(4, sharex=True)
        # matplotlib would take a name with two $ in it for a formula.
        figure.suptitle(printable(_title(checkpoint)), color=INK, parse_math=False)
        _bars(first, batches, [ROWS], "records in a batch")
        _bars(second, batches, [ACQUIRE, RUN, SETTLE], "seconds, by phase")
        _line(third, batches, LAG)
        _bars(fourth, batches, [REDELIVERED, UNCONFIRMED], "records")
        fourth.set_xlabel("batch")
        for axes in (first, third, fourth):
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        try:
            with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
                warnings.filterwarnings("ignore", "Glyph .* missing")
                figure.savefig(path, format="png")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _title(checkpoint: Checkpoint) -> str:
    times = [datetime.fromtimestamp(checkpoint.batches[at].planned_at, UTC) for at in (0, -1)]
    between = f"{times[0]:%Y-%m-%d %H:%M:%S} to {times[1]:%Y-%m-%d %H:%M:%S} UTC"
    return f"{', '.join(checkpoint.topics)}, group {', '.join(checkpoint.groups)}: {between}"


def _bars(axes: Axes, batches: Sequence[ReportedBatch], stacked: list[Series], label: str) -> None:
    numbers = [batch.number for batch in batches]
    floor = [0.0] * len(batches)
    for series in stacked:
        heights = [series.of(batch) or 0.0 for batch in batches]
        axes.bar(numbers, heights, 0.9, floor, color=COLOURS[series], label=series.name)
        floor = [low + high for low, high in zip(floor, heights, strict=True)]
    axes.set_ylim(bottom=0, top=None if any(floor) else 1)
    _finish(axes, label, legend=len(stacked) > 1)


def _line(axes: Axes, batches: Sequence[ReportedBatch], series: Series) -> None:
    known = [(b.number, value) for b in batches if (value := series.of(b)) is not None]
    axes.plot([at for at, _ in known], [value for _, value in known], color=COLOURS[series])
    axes.set_ylim(bottom=0)
    _finish(axes, series.name if known else f"{series.name} (not known)", legend=False)


def _finish(axes: Axes, label: str, *, legend: bool) -> None:
    axes.set_title(label, loc="left", color=FAINT, fontsize=9)
    if legend:
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
