"""The typer application: all commands in its help, only the one that is called imported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer

import sharegroup
from sharegroup.cli.serve import SUMMARY, serve

# In the order of the help. Each module has `add_to(application)`.
COMMANDS: Final = ("topics", "produce", "consume", "groups", "fsck", "spark-report")


def run(words: Sequence[str]) -> NoReturn:
    """Run the command that ``words`` spell, then exit with its status."""
    application = build(_needed(words[0] if words else "--help"))
    application(args=list(words), prog_name="sharegroup")
    raise AssertionError("typer exits by itself")


def _needed(first_word: str) -> Sequence[str]:
    if first_word == "--version":
        return ()
    return (first_word,) if first_word in COMMANDS else COMMANDS


def build(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """The application with these of COMMANDS."""
    application = typer.Typer(
        help="Queues on Kafka logs: a broker with share groups, and what talks to one.",
        epilog="Exit status: 0 done, 1 refused by the broker, 2 wrong usage, "
        "3 no broker reached, 130 Ctrl-C.",
        no_args_is_help=True,
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
    # Here for the help; `sharegroup.cli.main` starts the broker without typer.
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
) -> None:
    pass
