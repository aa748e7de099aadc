"""``sharegroup check``: the verdict on a recorded history of a queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from sharegroup.check.history import BadHistory
from sharegroup.check.judge import judged
from sharegroup.check.verdict import Verdict, Violation, evidence
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.tables import print_line

HELP: Final = """\
Judge a recorded history of a queue: was a record lost, delivered after it was done, held by two
members, taken from who did not hold it, counted wrong, or written twice?

HISTORY has one JSON object a line: what clients asked, and what they were told. Any client of any
broker can write it; docs/correctness.md has the form. The exit status is 1 if a rule does not hold.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup check history.jsonl
sharegroup check history.jsonl --evidence
"""
EVIDENCE_MAX: Final = 3

History = Annotated[str, typer.Argument(metavar="HISTORY", help="The file.")]
Evidence = Annotated[
    bool, typer.Option("--evidence", help="Print the events behind the first violations.")
]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("check", help=HELP, epilog=EPILOG)(check)


def check(history: History, show: Evidence = False) -> None:
    """Judge; :data:`HELP` has what the user reads."""

    async def command() -> int:
        try:
            verdict = _verdict(history)
        except OSError as error:
            raise UsageError(f"{history} cannot be read: {error.strerror or error}") from None
        except BadHistory as error:
            raise UsageError(f"{history}: {error}") from None
        for one in verdict.violations:
            print_line(str(one))
        if show:
            for one in verdict.violations[:EVIDENCE_MAX]:
                _print_evidence(history, one)
        number = len(verdict.violations) + verdict.more
        said = ", ".join(f"{count:,} {op}" for op, count in verdict.counts.items())
        print_line(f"{number or 'no'} {'violation' if number == 1 else 'violations'}: {said}")
        return 1 if number else 0

    run(command())


def _verdict(history: str) -> Verdict:
    with open(history, "rb") as lines:
        return judged(lines)


def _print_evidence(history: str, of: Violation) -> None:
    def lines() -> Iterator[bytes]:
        with open(history, "rb") as file:
            yield from file

    print_line(f"evidence of {of}")
    for line, event in evidence(lines, of):
        print_line(f"  {line}: {json.dumps(event)}")
