"""`python -m benchmarks.spark_pictures`: draws docs/spark-tasks.png and docs/spark-memory.png.

From the samples in docs/benchmarks.json, where `make bench ARGS="--write-docs"` left them.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import spark_memory, spark_tasks
from benchmarks.systems import EARLIER_PEERS, OURS, PEER

DOCS = Path(__file__).resolve().parent.parent / "docs"
STYLES = {"share": "o-", "kafka": "s--", "kafka-split": "^:"}

Samples = dict[str, dict[str, list[float]]]


def medians(samples: Samples, keys: dict[int, str], system: str) -> dict[int, float]:
    """The median of each key that has samples."""
    found = {at: samples.get(key, {}).get(system, []) for at, key in keys.items()}
    return {at: statistics.median(values) for at, values in found.items() if values}


def draw_tasks(axes: Axes, samples: Samples) -> None:
    """Records/s by tasks, on our broker."""
    fastest: dict[str, float] = {}
    for series, (name, _, asked) in spark_tasks.SERIES.items():
        keys = {tasks: spark_tasks.key(series, tasks) for tasks in asked}
        rates = medians(samples, keys, OURS)
        fastest[series] = max(rates.values())
        if list(rates) == [1]:  # this source has one task, however many cores there are
            rates = dict.fromkeys(spark_tasks.TASKS, rates[1])
        axes.plot(list(rates), list(rates.values()), STYLES[series], label=name)
    axes.set_xticks(spark_tasks.TASKS)
    axes.set_xlabel("Spark tasks that read the one partition")
    axes.set_ylabel("records/s, 5 ms of work for each")
    axes.set_ylim(bottom=0)
    times = fastest["share"] / fastest["kafka"]
    tasks = max(spark_tasks.TASKS)
    axes.set_title(
        f"Slow work: {tasks} tasks on one Kafka partition do {times:.1f} × as much as one"
    )
    axes.legend()


def draw_memory(axes: Axes, samples: Samples) -> None:
    """Memory of the source process by records read, on each broker that was measured."""
    keys = {step: spark_memory.key(step) for step in range(1, spark_memory.STEPS + 1)}
    systems = (OURS, PEER, *EARLIER_PEERS)
    measured = {system: medians(samples, keys, system) for system in systems}
    measured = {system: sizes for system, sizes in measured.items() if sizes}
    for system, sizes in measured.items():
        axes.plot(list(sizes), list(sizes.values()), "o-", label=system)
    largest = max(max(sizes.values()) for sizes in measured.values())
    axes.set_xlabel("million records read")
    axes.set_ylabel("MiB resident")
    axes.set_ylim(0, 1.3 * largest)
    axes.set_title(f"The Spark source needs {largest:.0f} MiB, however many records it reads")
    if len(measured) > 1:
        axes.legend()


def main() -> None:
    mpl.use("Agg")
    samples: Any = json.loads((DOCS / "benchmarks.json").read_text())["samples"]
    for name, draw in (("spark-tasks.png", draw_tasks), ("spark-memory.png", draw_memory)):
        figure = Figure(figsize=(7, 4), layout="constrained")
        draw(figure.add_subplot(), samples)
        figure.savefig(DOCS / name, dpi=110)
        print(DOCS / name)


if __name__ == "__main__":
    main()
