"""Writes docs/conformance.md: Apache Kafka's own test scenarios and our tests that cover them.

Each ``tests/conformance/CLASS.csv`` has one row per test method of Kafka's class: ``scenario``,
``covered_by`` (pytest ids, separated by ``;``) and ``note``. ``differences.csv`` has the
differences that the differential test (``tests/differential``) accepts: ``name``, ``kafka``,
``ours``, ``why``. ``--check`` only compares.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "tests" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
DIFFERENCES = TABLES / "differences.csv"
COLUMNS = ["scenario", "covered_by", "note"]

INTRODUCTION = """\
# Conformance

Generated from `tests/conformance/*.csv` by `make docs`. Each table has one row per test method of
a test class of Apache Kafka 4.3 (of groups and committed offsets: of Kafka's trunk of October
2024; of transactions and producers: of Kafka 4.1, compared with 4.4 by running it; of dead letters:
of Kafka 4.4): our test that exercises the same scenario, or why it does not apply here, or that it
is not covered yet.
"Matched by its name" means that nobody has read the two tests side by side. Names and facts are
Kafka's, code is ours. `tests/test_conformance.py` holds that every test named here exists and
that no row is empty.
"""


class Scenario(NamedTuple):
    """One test method of Kafka's."""

    name: str
    tests: tuple[str, ...]
    """pytest ids, relative to the repository."""
    note: str


def tables() -> dict[str, list[Scenario]]:
    """Every class's scenarios, in the order of Kafka's file.

    Raises:
        ValueError: a file's columns are not the three.
    """
    paths = sorted(path for path in TABLES.glob("*.csv") if path != DIFFERENCES)
    return {path.stem: _read(path) for path in paths}


def _read(path: Path) -> list[Scenario]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != COLUMNS:
            raise ValueError(f"{path.name}: columns {rows.fieldnames}, not {COLUMNS}")
        return [
            Scenario(
                row["scenario"],
                tuple(test.strip() for test in row["covered_by"].split(";") if test.strip()),
                (row["note"] or "").strip(),
            )
            for row in rows
        ]


def page() -> str:
    """The page's text."""
    found = tables()
    lines = [
        INTRODUCTION,
        "| Class | Scenarios | Covered | Do not apply | Not yet |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [_count(f"[{name}](#{name.lower()})", rows) for name, rows in found.items()]
    lines.append(_count("**all**", [row for rows in found.values() for row in rows]))
    for name, rows in found.items():
        lines += ["", f"## {name}", "", "| Scenario | Covered by | Note |", "| --- | --- | --- |"]
        lines += [
            f"| {row.name} | {'<br>'.join(map(_link, row.tests))} | {_escaped(row.note)} |"
            for row in rows
        ]
    return "\n".join([*lines, *_differences()]) + "\n"


def _differences() -> list[str]:
    """The differences that the differential test accepts, and why."""
    if not DIFFERENCES.exists():
        return []
    lines = [
        "",
        "## Differences that are meant",
        "",
        "A random script of client operations runs against Apache Kafka 4.4 and against us; these",
        "differences may be found.",
        "",
        "| Difference | Why |",
        "| --- | --- |",
    ]
    with DIFFERENCES.open(newline="") as file:
        rows = csv.DictReader(file)
        lines += [f"| {_escaped(row['name'])} | {_escaped(row['why'])} |" for row in rows]
    return lines


def _count(title: str, rows: Sequence[Scenario]) -> str:
    covered = sum(bool(row.tests) for row in rows)
    not_yet = sum(not row.tests and row.note.startswith("Not yet") for row in rows)
    apart = len(rows) - covered - not_yet
    return f"| {title} | {len(rows)} | {covered} | {apart} | {not_yet} |"


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{_escaped(name)}](../{path})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
