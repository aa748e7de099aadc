"""``sharegroup work``: runs a worker, whose handler is a function in the user's module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from sharegroup.app.log_lines import set_up
from sharegroup.cli.completion import complete_groups, complete_topics
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.handler_import import import_handler
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    CommandConfig,
    finite,
)
from sharegroup.cli.outcome import UsageError, complain, exit_code, run
from sharegroup.cli.working import Decode, WorkOptions, run_worker
from sharegroup.client.worker.retry import Backoff
from sharegroup.client.worker.settings import WorkerSettings
from sharegroup.model.errors import SharegroupError

HELP: Final = """\
Run a worker: call a function of yours with each record of a share group.

HANDLER is a function of one argument, the record. An `async def` runs on the event loop, a plain
function in threads, up to --concurrency of them at once. MODULE is imported with the current
directory on the path. When the function returns, the record is accepted; when it raises, the
record comes again after a pause, to any worker, and at last goes to the dead letters. Locks are
renewed while it runs.

The worker runs until Ctrl-C or SIGTERM: then running handlers have --drain seconds to end, and all
other records are released. A second signal ends it at once. Its log is on stderr.

RETRY is the pauses and the number of failed deliveries: first_s (1), factor (2), max_s (60),
jitter (0.2), attempts (as many as the group allows), with commas between them.
"""
EPILOG: Final = """\
Examples:

\b
cat > photos.py <<END
import asyncio
async def resize(job):
    print("resizing", job.value, flush=True)
    await asyncio.sleep(1)
END
sharegroup work photos:resize --topic photos --group resizers --decode text
sharegroup work photos:resize -t photos -g resizers -c 50 --retry first_s=5,attempts=3 \\
  --dead-letter photos-dead --create-dead-letter --drain 20

Exit status: as for all commands; 130 after Ctrl-C, 143 after SIGTERM.
"""


class LogLevel(StrEnum):
    """The least level that is shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


Handler = Annotated[str, typer.Argument(metavar="MODULE:HANDLER", help="The function to call.")]
Topics = Annotated[
    list[str],
    typer.Option("--topic", "-t", help="A topic; repeatable.", autocompletion=complete_topics),
]
Group = Annotated[
    str,
    typer.Option("--group", "-g", help="The share group.", autocompletion=complete_groups),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", "-c", min=1, help="How many handlers run at once.")
]
DecodeOption = Annotated[
    Decode,
    typer.Option(help="What the record's value is; one that it is not is given up at once."),
]
Retry = Annotated[
    str | None,
    typer.Option(metavar="RETRY", help="How failed records are tried again.", show_default=False),
]
DeadLetter = Annotated[
    str | None,
    typer.Option(
        "--dead-letter",
        metavar="TOPIC",
        help="Where given up records go; without it they are rejected, and only logged.",
        autocompletion=complete_topics,
    ),
]
CreateDeadLetter = Annotated[
    bool, typer.Option("--create-dead-letter", help="Create that topic if it is missing.")
]
HandlerTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", callback=finite, help="A handler that takes longer has failed."
    ),
]
Drain = Annotated[
    float,
    typer.Option(
        "--drain",
        metavar="SECONDS",
        min=0,
        callback=finite,
        help="How long handlers may go on at the end.",
    ),
]
CancelWhenLost = Annotated[
    bool | None,
    typer.Option(
        "--cancel-when-lost/--keep-when-lost",
        help="When the broker goes away, cancel handlers, or let them go on and keep their results."
        "  [default: cancel with order per key, else keep]",
        show_default=False,
    ),
]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="If the group is new, begin at the first record."),
]
UntilIdle = Annotated[
    float | None,
    typer.Option(
        "--until-idle",
        metavar="SECONDS",
        min=0,
        callback=finite,
        help="Stop when there was nothing to handle for so long, and no failed record rests.",
    ),
]
Level = Annotated[LogLevel, typer.Option(help="Log messages of this level and above.")]
Format = Annotated[LogFormat, typer.Option(help="Log lines as text, or as JSON objects.")]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("work", help=HELP, epilog=EPILOG)(work)


def work(
    handler: Handler,
    topics: Topics,
    group: Group,
    concurrency: Concurrency = 10,
    decode: DecodeOption = Decode.BYTES,
    retry: Retry = None,
    dead_letter: DeadLetter = None,
    create_dead_letter: CreateDeadLetter = False,
    handler_timeout: HandlerTimeout = None,
    drain: Drain = 30.0,
    cancel_when_lost: CancelWhenLost = None,
    from_beginning: FromBeginning = False,
    until_idle: UntilIdle = None,
    log_level: Level = LogLevel.INFO,
    log_format: Format = LogFormat.TEXT,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Run a worker; :data:`HELP` has what the user reads."""
    set_up(log_level, log_format)
    try:
        wanted = WorkOptions(
            handler=import_handler(handler),  # not on the loop: a module may use one of its own
            topics=topics,
            group=group,
            settings=WorkerSettings(
                concurrency=concurrency,
                retry=parse_retry(retry),
                dead_letter=dead_letter,
                create_dead_letter=create_dead_letter,
                timeout_s=handler_timeout,
                drain_s=drain,
                cancel_when_lost=cancel_when_lost,
                signals=(),  # the command hears them
            ),
            decode=decode,
            from_beginning=from_beginning,
            idle_s=until_idle,
            broker=broker_of(bootstrap_server, command_config),
        )
    except SharegroupError as error:
        complain(error)
        raise typer.Exit(exit_code(error)) from None
    run(run_worker(wanted))


def parse_retry(text: str | None) -> Backoff:
    """The pauses that ``name=number,…`` describes; None: the usual ones.

    Raises:
        UsageError: a name or a number is none.
        ConfigError: a number is not allowed.
    """
    kinds: dict[str, Callable[[str], float]] = {one.name: float for one in fields(Backoff)}
    kinds["attempts"] = int
    given: dict[str, Any] = {}
    for pair in text.split(",") if text is not None else ():
        name, _, number = (part.strip() for part in pair.partition("="))
        try:
            given[name] = kinds[name](number)
        except (KeyError, ValueError):
            raise UsageError(
                f"--retry {pair}: write NAME=NUMBER,…; the names are {', '.join(kinds)}"
            ) from None
    return Backoff(**given)
