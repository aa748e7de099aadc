"""A query's picture as text: a line of bars for each curve."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from sharegroup.spark.report.checkpoint import ReportedBatch
from sharegroup.spark.report.series import ALL, Series

BARS: Final = "▁▂▃▄▅▆▇█"
UNKNOWN: Final = "·"
BATCHES_MAX: Final = 60
"""How many batches fit on a line."""

COLUMNS: Final = ("", "batches", "median", "most", "last")

Row = tuple[str, str, str, str, str]


def rows(batches: Sequence[ReportedBatch]) -> list[Row]:
    """A row for each curve with values: name, bars of the last batches, median, highest and last
    value."""
    shown = batches[-BATCHES_MAX:]
    found = []
    for series in ALL:
        values = [series.of(batch) for batch in shown]
        known = [value for value in values if value is not None]
        if series is ALL[0] or any(known):
            found.append(_row(series, values, known))
    return found


def _row(series: Series, values: list[float | None], known: list[float]) -> Row:
    return (
        f"{series.name} {series.unit}".strip(),
        bars(values),
        text(median(known)),
        text(max(known)),
        text(values[-1]),
    )


def bars(values: Sequence[float | None]) -> str:
    """A character for each value, its height in proportion to the highest value; a dot if the value
    is not known."""
    high = max((value for value in values if value is not None), default=0)
    return "".join(
        UNKNOWN
        if value is None
        else BARS[min(len(BARS) - 1, int(value / high * len(BARS))) if high else 0]
        for value in values
    )


def text(value: float | None) -> str:
    """Whole numbers with commas, seconds with three digits."""
    if value is None:
        return "-"
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
