"""The command line, one file per command.

Only the module of the called command is imported: ``sharegroup serve`` must start fast and stay
small, so it loads neither typer nor rich nor the client. Exit codes are in
:mod:`sharegroup.cli.outcome`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from sharegroup.cli.standard_streams import open_missing_streams


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of ``sharegroup``: runs the command, then exits with its status."""
    open_missing_streams()  # first: any file that is opened could take the number of one
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["serve"]:
            from sharegroup.cli.serve import serve

            sys.exit(serve(words[1:]))
        from sharegroup.cli.application import run

        run(words)
    except KeyboardInterrupt:  # before the command has installed its own handling of Ctrl-C
        sys.exit(130)
