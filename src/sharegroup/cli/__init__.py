"""The command line, one file per command.

A command's module is imported only when it is the one that is called: ``sharegroup serve`` must be
ready at once and small, so it passes typer, rich and the client by. Exit codes are in
:mod:`sharegroup.cli.outcome`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The ``sharegroup`` command: runs it, then exits with its status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["serve"]:
            from sharegroup.cli.serve import serve

            sys.exit(serve(words[1:]))
        from sharegroup.cli.application import run

        run(words)
    except KeyboardInterrupt:  # before the command could say what Ctrl-C means to it
        sys.exit(130)
