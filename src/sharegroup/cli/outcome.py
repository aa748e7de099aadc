"""How a command ends: exit codes, and one sentence on stderr about an error.

====  =======================================================================
0     done
1     the broker refused, and the sentence begins with Kafka's name of the error;
      or the output could not be written, or the answer to a question was no
2     wrong usage, or an invalid setting
3     no broker was reached, or it went away; ``fsck``: the folder cannot be checked
130   Ctrl-C (143: SIGTERM), after work in progress was finished
====  =======================================================================
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from enum import IntEnum

import typer

from sharegroup.client.errors import BootstrapError
from sharegroup.model import errors
from sharegroup.model.printable import printable


class ExitCode(IntEnum):
    """Statuses that scripts can rely on."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    CANNOT_CHECK = 3
    INTERRUPTED = 130
    TERMINATED = 143


class UsageError(errors.SharegroupError):
    """The user's options or input are invalid; the message says why."""


def run(command: Coroutine[None, None, int | None]) -> None:
    """Run an asynchronous command to its end; its result is the exit status (None: 0)."""
    try:
        status = asyncio.run(command)
        sys.stdout.flush()
    except (KeyboardInterrupt, asyncio.CancelledError):  # CancelledError: a second Ctrl-C
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except errors.SharegroupError as error:
        if isinstance(error.__cause__, UnicodeEncodeError):  # in a message to the broker
            raise _refused(error.__cause__) from None
        complain(error)
        raise typer.Exit(exit_code(error)) from None
    except UnicodeEncodeError as error:
        raise _refused(error) from None
    except BrokenPipeError:
        raise  # the reader has closed the pipe: click exits silently
    except OSError as error:
        complain(f"the output cannot be written: {error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for buffered output
        raise typer.Exit(ExitCode.REFUSED) from None
    raise typer.Exit(status or ExitCode.DONE)


def _refused(error: UnicodeEncodeError) -> typer.Exit:
    """Complain of text that cannot be sent or printed."""
    if error.encoding != "utf-8":  # of the terminal
        unknown = error.object[error.start : error.end]
        complain(f"the output cannot be written: {error.encoding} has no {unknown!r}")
        return typer.Exit(ExitCode.REFUSED)
    complain(f"{error.object!r} is no UTF-8 text")
    return typer.Exit(ExitCode.USAGE)


def complain(error: errors.SharegroupError | str) -> None:
    """Print an error on stderr."""
    print(f"sharegroup: {printable(explain(error))}", file=sys.stderr)


def explain(error: errors.SharegroupError | str) -> str:
    """An error as one sentence; a protocol error begins with Kafka's name for it."""
    if isinstance(error, errors.KafkaError):
        return f"{error.name}: {error.message}"
    return str(error)


def exit_code(error: errors.SharegroupError) -> ExitCode:
    """The exit status for ``error``."""
    if isinstance(error, BootstrapError | errors.NetworkException | errors.RequestTimedOut):
        return ExitCode.UNREACHABLE
    if isinstance(error, errors.ConfigError | UsageError):
        return ExitCode.USAGE
    return ExitCode.REFUSED
