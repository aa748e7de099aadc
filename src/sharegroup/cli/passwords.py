"""A new password: from a file, from standard input, or asked for without showing it. Never from the
command line, which other users of the machine can see."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.outcome import ExitCode, UsageError, complain

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="A file whose first line is the password. By default it is asked for, or read from "
        "standard input if that is no terminal.",
    ),
]


def new_password(path: Path | None) -> str:
    """The password. Must be called outside of the event loop, so that Ctrl-C ends the question.

    Raises:
        typer.Exit: there is no password, the file cannot be read, or the user typed two different
            passwords (2), or Ctrl-C (130).
    """
    try:
        return _asked(path)
    except UsageError as error:
        complain(error)
        raise typer.Exit(ExitCode.USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _asked(path: Path | None) -> str:
    if path is not None:
        try:
            password = _first_line(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--password-file {path} cannot be read: {error}") from None
    elif sys.stdin.isatty():
        password = getpass("Password: ")
        if getpass("Once more: ") != password:
            raise UsageError("these are two passwords")
    else:
        password = _first_line(sys.stdin.readline())
    password = password.removesuffix("\r")
    if not password:
        raise UsageError("the password is empty")
    return password


def _first_line(text: str) -> str:
    """The first line, without the byte order mark that an editor may write before it."""
    return text.removeprefix("\ufeff").partition("\n")[0]
