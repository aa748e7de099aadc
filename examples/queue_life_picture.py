"""The picture of ``queue_life.py``: a line for each record, from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

INK, FAINT, KILL, DONE = "#22313f", "#b8c2cc", "#c0392b", "#2d8659"
HANDS: Final = {"ann": "#2e86ab", "bob": "#e07a1f", "cid": "#7b4b94"}
TITLES: Final = {
    "plain": "handled",
    "flaky": "fail twice,\ncome back later",
    "later": "sent for later",
    "wrong": "fail for good,\nare redriven",
}
STYLE: Final[dict[Any, Any]] = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
}


class Event(NamedTuple):
    """What a worker has done with a record."""

    worker: str
    what: str
    """``begun``, ``done`` or ``failed``."""
    number: int
    at: float
    """In seconds since 1970."""


@dataclass
class Story:
    """All that has happened; times in seconds since 1970."""

    kinds: Sequence[str]
    """Of the records, by number."""
    sent: dict[int, float] = field(default_factory=dict)
    due: dict[int, float] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    killed: tuple[str, float] = ("", 0.0)
    """A worker, and when."""
    redriven: float = 0.0


def draw(path: Path, story: Story) -> None:
    """Write the PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 7.5), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        start = min(story.sent.values())
        for number in range(len(story.kinds)):
            _draw_way(axes, story, number, start)
        _draw_marks(axes, story, start)
        _draw_titles(axes, story.kinds)
        axes.set(xlabel="seconds", yticks=[], ylim=(len(story.kinds) - 0.3, -1.6))
        axes.spines[["left", "top", "right"]].set_visible(False)
        axes.legend(handles=_legend(), ncols=4, loc="upper center", frameon=False,
                    bbox_to_anchor=(0.5, -0.08))  # fmt: skip
        axes.set_title("Each record's way through a share group", loc="left", fontsize=14)
        figure.savefig(path)


def _draw_way(axes: Axes, story: Story, number: int, start: float) -> None:
    """The line of one record: faint while it waits, thick while a worker has it."""
    own = [event for event in story.events if event.number == number]
    end = max(event.at for event in own) - start
    axes.plot([story.sent[number] - start, end], [number, number], color=FAINT, lw=1, zorder=1)
    if number in story.due:
        axes.plot(story.due[number] - start, number, "|", color=INK, ms=12, zorder=4)
    for place, event in enumerate(own):
        if event.what != "begun":
            continue
        until = next((one for one in own[place:] if one.what != "begun"
                      and one.worker == event.worker), None)  # fmt: skip
        last = (until.at if until else story.killed[1]) - start
        axes.plot([event.at - start, last], [number, number], color=HANDS[event.worker], lw=7,
                  solid_capstyle="butt", zorder=2)  # fmt: skip
        if until is None or until.what == "failed":
            axes.plot(last, number, "x", color=KILL, ms=8, mew=2, zorder=3)
        else:
            axes.plot(last, number, "o", color=DONE, ms=7, zorder=3)


def _draw_marks(axes: Axes, story: Story, start: float) -> None:
    marks = [(story.killed[1], f"{story.killed[0]} is killed", KILL),
             (story.redriven, "the list is mended, dead letters are redriven", INK)]  # fmt: skip
    for at, text, color in marks:
        axes.axvline(at - start, color=color, lw=1, ls=(0, (4, 3)), zorder=0)
        side, gap = ("right", -4) if at == story.redriven else ("left", 4)
        axes.annotate(text, (at - start, -1.1), xytext=(gap, 0), textcoords="offset points",
                      ha=side, color=color)  # fmt: skip


def _draw_titles(axes: Axes, kinds: Sequence[str]) -> None:
    for kind, title in TITLES.items():
        lanes = [number for number, one in enumerate(kinds) if one == kind]
        axes.annotate(title, (0, sum(lanes) / len(lanes)), xytext=(-14, 0),
                      xycoords=("axes fraction", "data"), textcoords="offset points",
                      ha="right", va="center")  # fmt: skip
        axes.axhline(lanes[0] - 0.5, color="#e8ecef", lw=1, zorder=0)


def _legend() -> list[Line2D]:
    hands = [Line2D([], [], color=color, lw=7, label=f"{name} has it")
             for name, color in HANDS.items()]  # fmt: skip
    marks = [("o", DONE, "accepted"), ("x", KILL, "failed, or its worker died"), ("|", INK, "due")]
    return [
        *hands,
        Line2D([], [], color=FAINT, lw=1, label="waits, or rests"),
        *(Line2D([], [], color=color, marker=marker, ls="", ms=8, mew=2, label=label)
          for marker, color, label in marks),
    ]  # fmt: skip
