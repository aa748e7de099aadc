"""Two pictures in one file: what the flights say, and what the queue did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from math import nan
from pathlib import Path

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter

from flights_demo import pool_worker, spark_gate
from flights_demo.check import Statistics
from flights_demo.journal import Batch, Verdict
from flights_demo.watch import Kill, Watch

INK, FAINT, GRID = "#22313f", "#8795a1", "#e8ecef"
ORIGINS = {"EWR": ("Newark", "#d1495b"), "JFK": ("JFK", "#2e86ab"), "LGA": ("LaGuardia", "#66a182")}
ACCEPTED, SPARK, IN_FLIGHT, AGAIN = "#2e86ab", "#e07a1f", "#edae49", "#7b4b94"
KILL = "#c0392b"
WEEK = 7
PEAKS = 3
STYLE = {
    "font.size": 10,
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


def draw(path: Path, statistics: Statistics, batches: Sequence[Batch], watch: Watch) -> None:
    """Write the PNG."""
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=0.12, hspace=0.06, w_pad=0.15)
        figure = Figure(figsize=(12, 13), dpi=130, facecolor="white", layout=layout)
        top, middle, bottom = figure.subplots(3, height_ratios=(4, 3, 2.4))
        _draw_delays(top, statistics)
        start = _start(batches, watch)
        last = max((one[-1].at - start for one in watch.samples.values() if one), default=1.0)
        _draw_progress(middle, batches, watch, start)
        _draw_in_flight(bottom, batches, watch, start)
        _name_kills(middle, watch.kills, start)
        for axes in (middle, bottom):
            _mark_kills(axes, watch.kills, start)
            axes.set_xlim(-0.02 * last, 1.02 * last)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g} s"))
            _legend(axes)
        figure.savefig(path)


# --- the flights ----------------------------------------------------------------------------------


def daily_means(statistics: Statistics) -> dict[str, dict[date, float]]:
    """Origin → day → mean delay over all carriers, each weighted with its departures."""
    minutes: dict[tuple[str, date], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (origin, _, day), (departures, mean) in statistics.items():
        total = minutes[origin, date.fromisoformat(day)]
        total[0] += departures * (mean or 0.0)
        total[1] += departures
    means: dict[str, dict[date, float]] = defaultdict(dict)
    for (origin, on), (total_minutes, flights) in sorted(minutes.items()):
        if flights:
            means[origin][on] = total_minutes / flights
    return means


def _draw_delays(axes: Axes, statistics: Statistics) -> None:
    means = daily_means(statistics)
    for origin, (name, colour) in ORIGINS.items():
        days = list(means.get(origin, {}))
        delays = list(means.get(origin, {}).values())
        axes.plot(days, delays, color=colour, alpha=0.28, linewidth=0.9)
        axes.plot(days, _smooth(delays), color=colour, linewidth=2.4, label=name)
    _title(
        axes,
        "Mean departure delay by day",
        "minutes, New York City 2013; thin lines: days, thick lines: the mean of seven",
    )
    axes.xaxis.set_major_locator(mdates.MonthLocator())
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%b"))
    axes.margins(x=0.01, y=0.08)  # room for the names of the worst days
    axes.axhline(0, color=FAINT, linewidth=0.8)
    _mark_peaks(axes, means)
    _legend(axes)


def _smooth(values: Sequence[float]) -> list[float]:
    """The mean of the seven days around each."""
    half = WEEK // 2
    windows = (values[max(0, at - half) : at + half + 1] for at in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def _mark_peaks(axes: Axes, means: dict[str, dict[date, float]]) -> None:
    """Name the worst days, at most one of them in a month."""
    worst = sorted(
        ((delay, day, origin) for origin, days in means.items() for day, delay in days.items()),
        reverse=True,
    )
    months: set[int] = set()
    for delay, day, origin in worst:
        if len(months) == PEAKS or day.month in months:
            continue
        months.add(day.month)
        axes.annotate(
            f"{day.day} {day:%b}, {ORIGINS[origin][0]}: {delay:.0f} min",
            (mdates.date2num(day), delay),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
        )


# --- the queue ------------------------------------------------------------------------------------


def _start(batches: Sequence[Batch], watch: Watch) -> float:
    """When the first flight was done."""
    decided = [batch.decided_at for batch in batches]
    done = [one.at for samples in watch.samples.values() for one in samples if one.done]
    return min(decided + done, default=0.0)


def _draw_progress(axes: Axes, batches: Sequence[Batch], watch: Watch, start: float) -> None:
    accepted = _running_total(
        (batch.confirmed_at, _count(batch, "accept")) for batch in batches if batch.confirmed_at
    )
    axes.fill_between(*_xy(accepted, start), color=ACCEPTED, alpha=0.12, linewidth=0, step="post")
    axes.step(*_xy(accepted, start), color=ACCEPTED, where="post", linewidth=2.4, label="accepted")
    gate = [(one.at, one.done) for one in watch.samples.get(spark_gate.GROUP, ())]
    if gate:
        axes.step(
            *_xy(gate, start),
            color=SPARK,
            where="post",
            linewidth=2,
            label="answered for by Spark",
        )
    axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
    _title(
        axes,
        "Six share consumers on four partitions, and Spark beside them",
        "flights: what the consumers accepted, by their journals; Spark's, as the broker says",
    )


def _draw_in_flight(axes: Axes, batches: Sequence[Batch], watch: Watch, start: float) -> None:
    held = [(one.at, one.in_flight) for one in watch.samples[pool_worker.GROUP]]
    again = _running_total(
        (batch.decided_at, sum(one.delivery_count > 1 for one in batch.decisions))
        for batch in batches
    )
    x, y = _xy([(at, nan if count is None else count) for at, count in held], start)
    axes.fill_between(x, y, color=IN_FLIGHT, alpha=0.18, linewidth=0, step="post")
    axes.step(x, y, color=IN_FLIGHT, where="post", linewidth=1.6, label="in flight")
    axes.step(*_xy(again, start), color=AGAIN, where="post", linewidth=2, label="delivered again")
    axes.set_ylim(bottom=0)
    _title(
        axes,
        "In flight and delivered again",
        "flights of the six consumers: held at the moment, as the broker says; second deliveries "
        "so far",
    )


def _mark_kills(axes: Axes, kills: Sequence[Kill], start: float) -> None:
    for kill in kills:
        axes.axvline(kill.at - start, color=KILL, linewidth=1.2, linestyle=(0, (4, 2)))
        if kill.back is not None:
            axes.axvspan(kill.at - start, kill.back - start, color=KILL, alpha=0.15, linewidth=0)


def _name_kills(axes: Axes, kills: Sequence[Kill], start: float) -> None:
    for number, kill in enumerate(kills):
        axes.annotate(
            f"kill -9 {kill.name}",
            (kill.at - start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(5, -12 - 13 * number),  # each on a line of its own: kills may be close
            textcoords="offset points",
            color=KILL,
            fontsize=9.5,
        )


def _running_total(counts: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    total, totals = 0, []
    for at, count in sorted(counts):
        total += count
        totals.append((at, total))
    return totals


def _xy(points: Sequence[tuple[float, float]], start: float) -> tuple[list[float], list[float]]:
    return [at - start for at, _ in points], [value for _, value in points]


def _count(batch: Batch, verdict: Verdict) -> int:
    return sum(one.verdict == verdict for one in batch.decisions)


def _title(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=15, fontweight="bold", pad=26)
    axes.text(0, 1.035, subtitle, transform=axes.transAxes, color=FAINT, fontsize=10)


def _legend(axes: Axes) -> None:
    """Above the panel, on the right."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=3, fontsize=10.5)
