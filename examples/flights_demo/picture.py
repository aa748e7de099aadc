"""The picture of the demo: the queue under kills, and the delays of the flights."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from math import inf, nan
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
LEADERS = (ACCEPTED, SPARK, AGAIN, IN_FLIGHT)
HEADROOM = 1.16  # above the data, for the marks of the kills
MARK_WIDTH = 0.025  # of the panel
KILLS_LINE = "     "
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
    """Write the PNG: the progress of the queue, and below it the delays of the flights."""
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=0.12, hspace=0.05, w_pad=0.15)
        figure = Figure(figsize=(12, 14.5), dpi=130, facecolor="white", layout=layout)
        heights = (3.2, 2.2, 1.7, 1.2, 1.9) if watch.leaders else (3.2, 2.2, 1.7, 1.9)
        progress, held, again, *led, delays = figure.subplots(len(heights), height_ratios=heights)
        start = _start(batches, watch)
        _draw_progress(progress, batches, watch, start)
        _draw_in_flight(held, watch, start)
        _draw_again(again, batches, start)
        pool = _pool_time(batches, start)
        whole = (0.0, max((one[-1].at - start for one in watch.samples.values() if one), default=1))
        for axes, (first, last) in ((progress, whole), (held, pool), (again, pool)):
            margin = 0.02 * (last - first)
            axes.set_xlim(first - margin, last + margin)
            axes.set_ylim(0, axes.get_ylim()[1] * HEADROOM)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g} s"))
            _mark_kills(axes, watch.kills, start)
        for axes in led:
            _draw_leaders(axes, watch, start)
            axes.set_xlim(progress.get_xlim())
            _mark_kills(axes, watch.kills, start)
        for axes in (progress, held, again, *led):
            _legend(axes)
        _draw_delays(delays, statistics)
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
        "What the flights say: mean departure delay by day",
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


def _pool_time(batches: Sequence[Batch], start: float) -> tuple[float, float]:
    """From the first decision of the six consumers to their last."""
    decided = [batch.decided_at - start for batch in batches]
    return (min(decided), max(decided)) if decided else (0.0, 1.0)


def _draw_progress(axes: Axes, batches: Sequence[Batch], watch: Watch, start: float) -> None:
    accepted = _running_total(
        (batch.confirmed_at, _count(batch, "accept")) for batch in batches if batch.confirmed_at
    )
    axes.fill_between(*_xy(accepted, start), color=ACCEPTED, alpha=0.12, linewidth=0, step="post")
    axes.step(
        *_xy(accepted, start),
        color=ACCEPTED,
        where="post",
        linewidth=2.4,
        label="six share consumers",
    )
    gate = [(one.at, one.done) for one in watch.samples.get(spark_gate.GROUP, ())]
    if gate:
        axes.step(*_xy(gate, start), color=SPARK, where="post", linewidth=2, label="Spark")
    _title(
        axes,
        "Accepted, whoever is killed",
        KILLS_LINE.join(_told(number, kill) for number, kill in enumerate(watch.kills, 1))
        + "\nflights done so far: the consumers', by their journals; Spark's, as the broker says",
    )


def _draw_in_flight(axes: Axes, watch: Watch, start: float) -> None:
    held = [(one.at, one.in_flight) for one in watch.samples[pool_worker.GROUP]]
    x, y = _xy([(at, nan if count is None else count) for at, count in held], start)
    axes.fill_between(x, y, color=IN_FLIGHT, alpha=0.18, linewidth=0, step="post")
    axes.step(x, y, color=IN_FLIGHT, where="post", linewidth=1.8, label="in flight")
    _title(
        axes,
        "In flight",
        "flights that the six consumers hold at the moment, as the broker says; none while it is "
        "away",
    )


def _draw_again(axes: Axes, batches: Sequence[Batch], start: float) -> None:
    again = _running_total(
        (batch.decided_at, sum(one.delivery_count > 1 for one in batch.decisions))
        for batch in batches
    )
    axes.step(*_xy(again, start), color=AGAIN, where="post", linewidth=2.4, label="redelivered")
    _title(
        axes,
        "Redelivered",
        "flights that came a second time, so far: what the killed consumer held, at once, "
        "and what was released",
    )


def _draw_leaders(axes: Axes, watch: Watch, start: float) -> None:
    """A bar for each partition, in the colour of the broker that leads it."""
    names = sorted({one for _, led in watch.leaders for one in led.values()})
    colours = dict(zip(names, itertools.cycle(LEADERS), strict=False))
    for name, colour in colours.items():
        axes.barh(0, 0, color=colour, label=name)
    for partition in sorted(watch.leaders[0][1]):
        seen = [(at, led.get(partition)) for at, led in watch.leaders]
        changes = [
            one for before, one in itertools.pairwise([(0.0, None), *seen]) if one[1] != before[1]
        ]
        for (at, leader), (after, _) in itertools.pairwise([*changes, seen[-1]]):
            if leader is not None:
                left = at - start
                axes.barh(partition, after - at, left=left, height=0.7, color=colours[leader])
    axes.set_yticks(sorted(watch.leaders[0][1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g} s"))
    axes.grid(visible=False)
    _title(axes, "Who led what", "the partitions of the topic, as the brokers say")


def _told(number: int, kill: Kill) -> str:
    back = "" if kill.back is None else f", back after {kill.back - kill.at:.1f} s"
    return f"{number}  kill -9 {kill.name}{back}"


def _mark_kills(axes: Axes, kills: Sequence[Kill], start: float) -> None:
    """A line from the bottom to a numbered mark at the top; marks that would meet are put one below
    the other."""
    first, last = axes.get_xlim()
    beside = -inf
    row = 0
    for number, kill in enumerate(kills, 1):
        at = kill.at - start
        if kill.back is not None:
            span = max(at, first), min(kill.back - start, last)
            if span[0] < span[1]:
                axes.axvspan(*span, color=KILL, alpha=0.10, linewidth=0)
        if not first <= at <= last:
            continue
        row = row + 1 if at - beside < MARK_WIDTH * (last - first) else 0
        beside = at
        axes.axvline(at, color=KILL, linewidth=1.2, linestyle=(0, (4, 2)))
        axes.annotate(
            str(number),
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -9 - 20 * row),
            textcoords="offset points",
            ha="center",
            va="center",
            color="white",
            fontsize=9.5,
            fontweight="bold",
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": KILL, "edgecolor": "white"},
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
    lines = subtitle.count("\n") + 1
    axes.set_title(title, loc="left", fontsize=15, fontweight="bold", pad=12 + 14 * lines)
    axes.annotate(
        subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 8),
        textcoords="offset points",
        color=FAINT,
        fontsize=10,
        linespacing=1.4,
    )


def _legend(axes: Axes) -> None:
    """Above the panel, on the right."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=3, fontsize=10.5)
