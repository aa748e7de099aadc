"""``sharegroup groups redrive``: sends the records of dead letters again."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharegroup.cli.completion import Group, complete_topics
from sharegroup.cli.connecting import BrokerAddress, broker_of
from sharegroup.cli.letter_options import (
    EXPRESSIONS,
    DeadLetters,
    DryRun,
    JsonSteps,
    Where,
    expression_of,
    queue_of,
)
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    CommandConfig,
    finite,
)
from sharegroup.cli.outcome import ExitCode, complain, run
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count, print_line
from sharegroup.client.core.dead_letter import LettersHandled, LettersProgress
from sharegroup.client.core.done_letters import DONE_TOPIC

if TYPE_CHECKING:
    from rich.progress import Progress

    from sharegroup.client.dead_letters.handling import Handling

SOURCE: Final = "SOURCE"
_COLLECTING: Final = (100_000, 50, 100)
"""How seldom garbage is collected: letters live until their transaction ends, and scanning them
again and again takes a fifth of the time."""
HELP: Final = f"""\
Send the records of a group's dead letters again, each letter once.

A record goes to the topic and the partition that it is from (SOURCE), or with --to to another
topic, by its key. Within a partition the order of the letters is kept. It has its key, value and
headers again, and the time of its redrive as timestamp. The header sharegroup.redriven counts the
redrives, so a record that dies again shows it. A letter without a copy of its record
(errors.deadletterqueue.copy.record.enable=false) is redriven while the source topic still has the
record; otherwise the letter is left. Letters that Apache Kafka 4.4 has written are redriven too:
it copies no headers, so these are taken from the source topic while that has the record.
A broker that was killed may have written two letters about one failure: that is redriven once.

The records, and the marks which letters are done, are written in one transaction. So whatever is
interrupted or killed, the next call goes on, and a second one finds nothing. Ctrl-C ends it after
the transaction. If it is killed, readers of uncommitted records see those of the aborted
transaction, and later again: share groups do, unless share.isolation.level=read_committed. The
marks are in the topic {DONE_TOPIC}, which the first redrive creates. Writing to it
and to the goal must be allowed, and the use of transactional ids that begin with the group's name.
A second redrive of a group takes over: the first one ends with PRODUCER_FENCED. Done letters stay
in their topic until its retention.

{EXPRESSIONS}"""
EPILOG: Final = """\
Examples:

\b
sharegroup dead list workers
sharegroup groups redrive workers --dry-run
sharegroup groups redrive workers --where 'cause == "rejected" and age < 2d' --rate 100
sharegroup groups redrive workers --to jobs-again --max 10

Exit status: as for all commands; 1 also if letters were left whose record or topic is gone.
"""


def redrive(
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            metavar="SOURCE|TOPIC", help="Where to send them.", autocompletion=complete_topics
        ),
    ] = SOURCE,
    where: Where = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="N", callback=finite, help="At most N letters a second."),
    ] = None,
    letters_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Redrive at most so many letters.")
    ] = None,
    dry_run: DryRun = False,
    dead_letters: DeadLetters = None,
    as_json: JsonSteps = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Redrive; :data:`HELP` has what the user reads."""

    async def command() -> int:
        # Imported here: it loads consumer and producer, which the other commands do not need.
        from sharegroup.client.dead_letters.handling import Handling

        wanted = Handling(
            redrive=True,
            to=None if to == SOURCE else to,
            where=expression_of(where),
            rate=rate,
            letters_max=letters_max,
            dry_run=dry_run,
        )
        broker = broker_of(bootstrap_server, command_config)
        return await handled(broker, group, dead_letters, wanted, as_json=as_json)

    run(command())


async def handled(
    broker: BrokerAddress, group: str, topic: str | None, wanted: Handling, *, as_json: bool
) -> ExitCode:
    """Redrive or purge letters, with a bar on a terminal; returns the exit status.

    Raises:
        SharegroupError: as :func:`handle`.
    """
    from sharegroup.client.dead_letters.handling import handle
    from sharegroup.client.dead_letters.queue import ISOLATION

    deed = "redriven" if wanted.redrive else "purged"
    progress = _Progress(as_json=as_json)
    gc.set_threshold(*_COLLECTING)

    async def work() -> LettersHandled:
        async with queue_of(broker, group, topic) as queue:
            if wanted.redrive and not wanted.dry_run and await queue.reads_uncommitted():
                complain(
                    f"{group} reads uncommitted records: if this redrive is killed, some may come "
                    f"twice; sharegroup groups set {group} {ISOLATION}=read_committed prevents it"
                )
            return await handle(queue, replace(wanted, told=progress.told))

    with Stopping() as stopping, progress.shown():
        found = await stopping.unless_stopped(work())
    if found is None:
        complain(f"{count(progress.done, 'letter')} {deed}: the same command goes on")
        return stopping.exit_code or ExitCode.INTERRUPTED
    return _report(found, deed, dry_run=wanted.dry_run, as_json=as_json)


class _Progress:
    """Shows how far it is: a bar on stderr, if it is a terminal; with ``as_json`` lines."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._bar: Progress | None = None
        self.done = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The bar, if there is a terminal for it."""
        if self._as_json or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as self._bar:
            self._bar.add_task("", total=None)
            yield

    def told(self, progress: LettersProgress) -> None:
        """The handling of letters got further."""
        self.done = progress.done
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                total=progress.records,
                completed=progress.records_read,
                description=count(progress.done, "letter"),
            )
        if self._as_json and progress.step == "committed":
            print(json.dumps(asdict(progress)), flush=True)


def _report(found: LettersHandled, deed: str, *, dry_run: bool, as_json: bool) -> ExitCode:
    """Print the outcome; returns the exit status."""
    left = {
        "whose record the source topic has no longer, and which have no copy of it": found.gone,
        "whose source topic is gone: redrive them --to another one": found.homeless,
    }
    if as_json:
        print(json.dumps({"step": "dry-run" if dry_run else "end", **asdict(found)}), flush=True)
    else:
        others = f", {count(found.passed, 'other')} left" if found.passed else ""
        twins = f", {found.twins} written twice" if found.twins else ""
        print_line(f"{count(found.done, 'letter')} {'would be ' * dry_run}{deed}{twins}{others}")
    for why, number in left.items():
        if number:
            complain(f"{count(number, 'letter')} left {why}")
    return ExitCode.REFUSED if any(left.values()) else ExitCode.DONE
