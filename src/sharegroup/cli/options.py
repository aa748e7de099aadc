"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
_NAME: Final = "bootstrap_server"
_HELP: Final = "The broker; several with commas between them."


def bootstrap_server_of(context: typer.Context) -> str:
    """The broker of a command: from its own option, from the option before the verb, or from the
    environment.
    """
    return as_given(context, context.params.get(_NAME)) or DEFAULT_BOOTSTRAP_SERVER


def as_given(context: typer.Context, value: str | None) -> str | None:
    """The --bootstrap-server of this command, or the one before the verb; else ``value``."""
    source = context.get_parameter_source(_NAME)
    if source is not None and source.name == "COMMANDLINE":  # it overrides the environment
        return value
    before = context.parent
    while before is not None:
        given: str | None = before.params.get(_NAME)
        if given is not None:
            return given
        before = before.parent
    return value


BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="SHAREGROUP_BOOTSTRAP_SERVER",
        help=_HELP,
        callback=as_given,
    ),
]
BootstrapServerBefore = Annotated[
    str | None,
    typer.Option("--bootstrap-server", "-b", metavar="HOST:PORT", help=_HELP),
]
"""The same option before the verb; its value is kept for the command."""


def _keep(bootstrap_server: BootstrapServerBefore = None) -> None:
    pass


def verbs(help_text: str) -> typer.Typer:
    """An application with several verbs, such as ``topics``; --bootstrap-server may come before the
    verb.
    """
    application = typer.Typer(no_args_is_help=True, help=help_text, rich_markup_mode=None)
    application.callback()(_keep)
    return application


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts, not a table.")]
