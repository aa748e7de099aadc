"""The typer application. Its help lists all commands; only the called one is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer

import sharegroup
from sharegroup.cli.options import BootstrapServerBefore, CommandConfigBefore
from sharegroup.cli.serve import SUMMARY, serve

EPILOG: Final = """\
Examples:

\b
sharegroup serve --data jobs-data
sharegroup topics create jobs --partitions 4
seq 1 1000 | sharegroup produce jobs
sharegroup consume jobs --group workers --from-beginning --max 10
sharegroup work photos:resize --topic photos --group resizers
sharegroup groups describe workers --watch

Exit status: 0 done, 1 refused by the broker, 2 wrong usage, 3 no broker reached, 130 Ctrl-C.
"""
# In the order of the help. Each module has `add_to(application)`.
COMMANDS: Final = (
    "topics",
    "produce",
    "consume",
    "work",
    "groups",
    "move",
    "dead",
    "transactions",
    "nodes",
    "users",
    "quotas",
    "acls",
    "fsck",
    "check",
    "simulate",
    "console",
    "spark-report",
)
COMPLETING: Final = "_SHAREGROUP_COMPLETE"
"""The shell sets it to ask for completions. The command line is in COMP_WORDS (bash) or in
_TYPER_COMPLETE_ARGS (zsh, fish)."""


def run(words: Sequence[str]) -> NoReturn:
    """Run the command line ``words``, then exit with its status."""
    application = build(_needed(_verb(words)))
    application(args=list(words), prog_name="sharegroup")
    raise AssertionError("typer exits by itself")


def _verb(words: Sequence[str]) -> str:
    """The command: the first word that is neither an option nor an option's value. If the shell
    asks for completions, the words are taken from the line to complete.
    """
    if COMPLETING in os.environ:
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = line.split()[1:]
    rest = iter(words)
    for word in rest:
        if word in ("-b", "--bootstrap-server", "--command-config"):
            next(rest, None)
        elif not word.startswith(("-b", "--bootstrap-server=", "--command-config=")):
            return word
    return "--help"


def _needed(verb: str) -> Sequence[str]:
    if verb == "--version":
        return ()
    return (verb,) if verb in COMMANDS else COMMANDS


def build(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """The application with these commands."""
    application = typer.Typer(
        help="Queues on Kafka logs: a broker with share groups, and commands to use one.",
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # rich would keep the line breaks of the docstrings
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_global_options)
    application.command("serve", help=SUMMARY, add_help_option=False, context_settings=_RAW)(_serve)
    for command in commands:
        import_module(f"sharegroup.cli.{command.replace('-', '_')}").add_to(application)
    return application


_RAW: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


def _serve(context: typer.Context) -> None:
    # For the help only: `sharegroup.cli.main` starts the broker without typer.
    raise typer.Exit(serve(context.args))


def _print_version(wanted: bool) -> None:
    if wanted:
        from sharegroup.records.walk import NAME

        print(f"sharegroup {sharegroup.__version__} (walk over records: {NAME})")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version, and whether the walk over records is compiled.",
        ),
    ] = False,
    bootstrap_server: BootstrapServerBefore = None,
    command_config: CommandConfigBefore = None,
) -> None:
    pass
