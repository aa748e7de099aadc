"""The table of results, on the screen and as Markdown, and all samples as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
from rich.table import Table

from benchmarks.benchmark import Benchmark, Row
from benchmarks.reasons import NOISE, NOT_KNOWN, reason
from benchmarks.runner import Results
from benchmarks.spark_jars import SPARK
from benchmarks.systems import EARLIER_PEERS, OURS, PEER

MISSING = "–"
WORSE = " (worse)"
PAGE = """# Benchmarks

Written by `make bench ARGS="--write-docs"`, or from its samples by `make docs`: do not edit.
Medians of alternating rounds, same clients, on {machine}, {when},
with {versions}.
The figures of one row are of one run (`--only` measures some rows anew and keeps the others).
*Rounds*: how many were measured. *Spread*: half of what lies between the lowest and the highest, in
per cent of the median, for each system. How each row is measured stands in the docstring of its
file in `benchmarks/`, and why one is worse in `benchmarks/reasons.py`; every sample is in
[benchmarks.json](benchmarks.json). A version in brackets behind a value is that of the Apache Kafka
which the row was measured on.

{table}

{once}
"""
ONCE = """Rows of one round say little. More rounds of all of them:
`make bench ARGS="--write-docs {only}"`."""


def machine() -> str:
    """A short description of the machine."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} × {model}, Python {platform.python_version()}"


def lines(
    benchmarks: Sequence[Benchmark], results: Results, systems: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """The table as text: its header and its rows."""
    ours = [system for system in systems if system != PEER] if PEER in systems else []
    header = [
        "",
        "unit",
        *systems,
        *(f"{system.removeprefix('ours, ')} ÷ Kafka" for system in ours),
        "target",
        "rounds",
        "spread",
        "why worse",
    ]
    table = [
        [row.title, row.unit]
        + [system_text(row, results, system) for system in systems]
        + [ratio_text(row, results, system) for system in ours]
        + [row.target, *repeated(results.samples[row.key], systems), why(row, results, ours)]
        for benchmark in benchmarks
        for row in benchmark.rows
    ]
    return header, table


def peer_of(samples: Mapping[str, Sequence[float]]) -> str:
    """The version of Apache Kafka that a row was measured on: PEER, or else an earlier one."""
    return next((peer for peer in (PEER, *EARLIER_PEERS) if samples.get(peer)), PEER)


def system_text(row: Row, results: Results, system: str) -> str:
    if system != PEER:
        return value_text(results.median(row.key, system))
    peer = peer_of(results.samples[row.key])
    version = "" if peer == PEER else f" ({peer.rpartition(' ')[2]})"
    return value_text(results.median(row.key, peer)) + version


def value_text(value: float | None) -> str:
    if value is None:
        return MISSING
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def repeated(samples: Mapping[str, Sequence[float]], systems: Sequence[str]) -> tuple[str, str]:
    """The number of rounds of a row, and the spread of its samples around the median."""
    names = [peer_of(samples) if system == PEER else system for system in systems]
    measured = [samples[name] for name in names if samples.get(name)]
    rounds = max(map(len, measured), default=0)
    if rounds < 2:
        return str(rounds or MISSING), MISSING
    spreads = [(max(one) - min(one)) / 2 / (statistics.median(one) or 1) for one in measured]
    return str(rounds), " / ".join(f"{spread:.0%}" for spread in spreads)


def ratio_text(row: Row, results: Results, system: str) -> str:
    mine = results.median(row.key, system)
    peer = results.median(row.key, peer_of(results.samples[row.key]))
    if mine is None or not peer:
        return MISSING
    ratio = mine / peer
    better = ratio >= 1 if row.higher_is_better else ratio <= 1
    return f"{ratio:.2f} ×{'' if better else WORSE}"


def why(row: Row, results: Results, ours: Sequence[str]) -> str:
    """The reasons for what is worse in this row, in the order of the columns."""
    reasons = [
        _why_here(row, results, system)
        for system in ours
        if WORSE in ratio_text(row, results, system)
    ]
    return "; ".join(dict.fromkeys(reasons))


def _why_here(row: Row, results: Results, system: str) -> str:
    known = reason(row.key, durable=system == OURS)
    samples = results.samples[row.key]
    mine, peers = samples[system], samples[peer_of(samples)]
    apart = abs(statistics.median(mine) - statistics.median(peers))
    spread = sum((max(one) - min(one)) / 2 for one in (mine, peers))
    return NOISE if known == NOT_KNOWN and apart <= spread else known


def once_only(
    benchmarks: Sequence[Benchmark], results: Results, systems: Sequence[str]
) -> list[str]:
    """Names of the benchmarks whose rows are of one round, though more could be measured."""
    return [
        benchmark.name
        for benchmark in benchmarks
        if benchmark.rounds_max != 1
        and any(repeated(results.samples[row.key], systems)[0] == "1" for row in benchmark.rows)
    ]


def rich_table(header: list[str], rows: list[list[str]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        is_text = number < 2 or number == len(header) - 1
        table.add_column(name, justify="left" if is_text else "right")
    for row in rows:
        marked = [cell.replace("(worse)", "[red](worse)[/red]") for cell in row]
        table.add_row(*marked)
    return table


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---" if number < 2 else "---:" for number in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def add_earlier(results: Results, path: Path) -> None:
    """Add samples from the JSON of an earlier run, for rows that were not measured this time."""
    if not path.exists():
        return
    for key, by_system in json.loads(path.read_text())["samples"].items():
        if not any(results.samples[key].values()):
            results.samples[key].update(by_system)


def write_json(path: Path, results: Results, rounds: int) -> None:
    """Every sample of every row, by system."""
    content = {
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "rounds": rounds,
        "samples": results.samples,
        "failures": results.failures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def versions() -> str:
    """The versions of the measured programs."""
    rdkafka = confluent_kafka.libversion()[0]
    return f"{PEER}, librdkafka {rdkafka}, PySpark {SPARK} in Spark's rows"


def page(benchmarks: Sequence[Benchmark], systems: Sequence[str], path: Path) -> str:
    """The table of the samples in ``path``, as a page of the documentation."""
    measured = json.loads(path.read_text())
    results = Results()
    add_earlier(results, path)
    once = once_only(benchmarks, results, systems)
    only = " ".join(f"--only {name}" for name in once)
    return PAGE.format(
        machine=measured["machine"],
        when=measured["when"].partition("T")[0],
        versions=measured["versions"],
        table=markdown_table(*lines(benchmarks, results, systems)),
        once=ONCE.format(only=only) if once else "Every row has several rounds.",
    )
