"""Asks before something is deleted."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from sharegroup.cli.outcome import ExitCode, complain
from sharegroup.model.printable import printable

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]


def confirm(deed: str, *, yes: bool) -> None:
    """Ask on stderr whether to do ``deed``, and return if the answer is yes; with ``yes``, do not
    ask. Must be called outside of the event loop, so that Ctrl-C ends the question.

    Raises:
        typer.Exit: the answer is not yes (1), or there is no terminal to ask on (2).
    """
    if yes:
        return
    if not os.isatty(0):
        complain(f"{deed}? There is no terminal to ask on: confirm with --yes")
        raise typer.Exit(ExitCode.USAGE)
    print(printable(f"{deed}? [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        complain("nothing was done")
        raise typer.Exit(ExitCode.REFUSED)
