"""What the demo shows: progress while it runs, and the verdict as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flights_demo.check import Finding


def progress_bars(console: Console) -> Progress:
    """A bar for each thing that happens."""
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def verdict_table(findings: Mapping[str, Sequence[Finding]]) -> Table:
    """One section per title; a number that must be something else is red."""
    table = Table(box=box.SIMPLE_HEAD, title_justify="left", header_style="bold", pad_edge=False)
    table.add_column("")
    table.add_column("found", justify="right")
    table.add_column("must be", justify="right")
    table.add_column("", justify="center")
    for title, section in findings.items():
        table.add_row(f"[bold cyan]{title}[/bold cyan]")
        for one in section:
            table.add_row(f"  {one.what}", *_numbers(one), _mark(one))
        table.add_section()
    return table


def _numbers(one: Finding) -> tuple[str, str]:
    found = f"{one.found:,}" if one.ok else f"[bold red]{one.found:,}[/bold red]"
    return found, "" if one.expected is None else f"{one.expected:,}"


def _mark(one: Finding) -> str:
    if one.expected is None:
        return ""
    return "[green]✓[/green]" if one.ok else "[bold red]✗[/bold red]"
