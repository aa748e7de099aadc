"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="SHAREGROUP_BOOTSTRAP_SERVER",
        help="The broker; several with commas between them.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts, not a table.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the share group.")]
