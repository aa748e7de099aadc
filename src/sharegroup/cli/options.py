"""Options and arguments that several commands share."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

from sharegroup.cli.connecting import SERVERS, BrokerAddress, broker_of, read_config
from sharegroup.cli.outcome import ExitCode, complain
from sharegroup.model.errors import ConfigError

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
_NAME: Final = "bootstrap_server"
_CONFIG: Final = "command_config"
_CONFIG_HELP: Final = "Properties of the connection, as Java's clients or librdkafka have them."
_HELP: Final = "The broker; several with commas between them."


def finite(value: float | None) -> float | None:
    """A number of an option, which may be neither ``inf`` nor ``nan``."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("give a finite number")
    return value


def bootstrap_server_of(context: typer.Context) -> str:
    """The broker of a command: from its own option, from the option before the verb, or from the
    environment.
    """
    return as_given(context, context.params.get(_NAME)) or DEFAULT_BOOTSTRAP_SERVER


def broker_before(context: typer.Context) -> BrokerAddress:
    """The broker of a command, while its command line is not complete yet."""
    return broker_of(bootstrap_server_of(context), config_of(context, context.params.get(_CONFIG)))


def as_given(context: typer.Context, value: str | None) -> str | None:
    """The address of the broker: from --bootstrap-server of this command, or before the verb; else
    from the environment; else from the file of --command-config; else ``value``.
    """
    source = context.get_parameter_source(_NAME)
    if source is not None and source.name == "COMMANDLINE":  # it overrides the environment
        return value
    before = _before(context, _NAME)
    if before is not None:
        return before
    config = context.params.get(_CONFIG)
    if config is not None and (source is None or source.name == "DEFAULT"):
        return _servers_in(config) or value
    return value


def config_of(context: typer.Context, value: str | None) -> str | None:
    """The --command-config of this command, or the one before the verb; else ``value``."""
    source = context.get_parameter_source(_CONFIG)
    if source is not None and source.name == "COMMANDLINE":
        return value
    return _before(context, _CONFIG) or value


def _before(context: typer.Context, name: str) -> str | None:
    """The option as it was given before the verb."""
    before = context.parent
    while before is not None:
        given: str | None = before.params.get(name)
        if given is not None:
            return given
        before = before.parent
    return None


def _servers_in(config: str) -> str | None:
    try:
        return read_config(config).get(SERVERS)
    except ConfigError as error:
        complain(error)
        raise typer.Exit(ExitCode.USAGE) from None


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
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="SHAREGROUP_COMMAND_CONFIG",
        help=_CONFIG_HELP,
        callback=config_of,
        is_eager=True,  # before --bootstrap-server: the file may have that, too
    ),
]
CommandConfigBefore = Annotated[
    str | None, typer.Option("--command-config", metavar="FILE", help=_CONFIG_HELP)
]
"""The same options before the verb; their values are kept for the command."""


def _keep(
    bootstrap_server: BootstrapServerBefore = None, command_config: CommandConfigBefore = None
) -> None:
    pass


def verbs(help_text: str) -> typer.Typer:
    """An application with several verbs, such as ``topics``; --bootstrap-server may come before the
    verb.
    """
    application = typer.Typer(no_args_is_help=True, help=help_text, rich_markup_mode=None)
    application.callback()(_keep)
    return application


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts, not a table.")]
