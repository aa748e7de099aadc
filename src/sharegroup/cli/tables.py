"""Output of the commands: JSON for scripts, or tables for users; only tables load rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharegroup.model.printable import printable, printable_json

Cell = str | int | float | None
_ENDLESS: Final = 1_000_000
"""A width in columns that no table reaches."""


def print_json(value: object) -> None:
    """Print one JSON document on stdout, indented on a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    print(printable_json(json.dumps(value, ensure_ascii=False, indent=indent)))


def print_line(text: str) -> None:
    """Print one line on stdout; control characters in names are escaped."""
    print(printable(text))


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool = False
) -> None:
    """Print these columns of the rows as a table, or the whole rows as JSON."""
    if as_json:
        print_json(rows)
    else:
        titles = [column.replace("_", " ") for column in columns]
        print_table(titles, [[row[column] for column in columns] for row in rows])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table on stdout: numbers right-aligned, None as a dash. In a pipe, no line is cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, name in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[at], int | float | None) for line in lines)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in line))
    console = Console()
    if not console.is_terminal:
        # measured with a very wide console: rich never measures more than the console's width
        console = Console(width=max(80, Console(width=_ENDLESS).measure(table).maximum))
    console.print(table)


def count(number: int, noun: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
