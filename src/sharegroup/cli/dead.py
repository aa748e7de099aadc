"""``sharegroup dead``: list, show, export, purge the dead letters of a share group."""

from __future__ import annotations

import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import typer

from sharegroup.cli.completion import Group
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.letter_options import (
    EXPRESSIONS,
    DeadLetters,
    DryRun,
    JsonSteps,
    Where,
    expression_of,
    letter_row,
    queue_of,
    time_text,
)
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, run
from sharegroup.cli.output import Output
from sharegroup.cli.record_format import JSON, renderer
from sharegroup.cli.redrive import handled
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import count, print_json, print_line, print_rows
from sharegroup.client.core.dead_letter import DeadLetter
from sharegroup.client.core.json_record import record_json
from sharegroup.client.core.letter_kinds import kind_of
from sharegroup.client.dead_letters.handling import Handling
from sharegroup.client.dead_letters.queue import DeadLetterQueue
from sharegroup.client.log_reading import LogRecord, as_log_record

dead = verbs("Show, export and purge the dead letters of a share group.")

LIST_HELP: Final = f"""\
Show what failed, why, and how often: the dead letters that are neither redriven nor purged.

Letters count together if they have the same cause and the same message, apart from numbers. The
cause is rejected, or at the delivery limit released, lock-expired or session-ended; operator;
expired; or the type of a worker's exception. Letters that Apache Kafka has written have no cause.
With --each, a line is one letter. Its name, such as 0:17, is its partition and offset in the
dead-letter topic.

{EXPRESSIONS}"""
SHOW_HELP: Final = """\
Show one dead letter whole: what the broker says about the record, and the record itself.

LETTER is its name in dead list --each, such as 0:17. The value is printed as `consume` prints it,
by --format, see sharegroup consume --help. If the letter has no copy of the record, it is read from
the source topic, as long as that has it. Letters that are done can be shown too.
"""
EXPORT_HELP: Final = f"""\
Print the dead letters that are neither redriven nor purged, as they are in their topic.

A line is one letter, in the form of consume --format json, which produce --format json reads. The
headers __dlq.errors.* say where the record is from, and why it failed.

{EXPRESSIONS}"""
PURGE_HELP: Final = f"""\
Mark dead letters as done, so that they are not shown or redriven any more. Asks first, unless --yes
is given.

The letters are not deleted: they stay in the dead-letter topic until its retention. It cannot be
undone; sharegroup consume TOPIC --peek still shows them.

{EXPRESSIONS}"""
EPILOG: Final = """\
Examples:

\b
sharegroup dead list workers
sharegroup dead list workers --each --where 'cause == "rejected"'
sharegroup dead show workers 0:17
sharegroup dead export workers --where 'age < 1d' > letters.jsonl
sharegroup dead purge workers --older-than 30d
sharegroup groups redrive workers --where 'message matches "time.?out"'
"""
COLUMNS: Final = (
    "letter",
    "topic",
    "partition",
    "offset",
    "cause",
    "deliveries",
    "failed",
    "message",
)
COLUMNS_OF_KINDS: Final = ("cause", "message", "letters", "first", "last")
_KINDS_MAX: Final = 10_000
"""Kinds of letters that are counted apart; further ones count together."""
_OTHER_KINDS: Final = (None, "(other messages)")


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(dead, name="dead")


@dataclass(slots=True)
class _Kind:
    """Letters that count together."""

    letters: int = 0
    first_ms: int = sys.maxsize
    last_ms: int = -1


@dead.command("list", help=LIST_HELP, epilog=EPILOG)
def list_letters(
    group: Group,
    each: Annotated[bool, typer.Option("--each", help="A line for each letter.")] = False,
    where: Where = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many lines.")
    ] = 1_000,
    dead_letters: DeadLetters = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List; :data:`LIST_HELP` has what the user reads."""

    async def command() -> None:
        wanted = expression_of(where)
        broker = broker_of(bootstrap_server, command_config)
        kinds: dict[tuple[str | None, str | None], _Kind] = {}
        rows: list[dict[str, Any]] = []
        found = 0
        async with queue_of(broker, group, dead_letters) as queue:
            async for some in queue.letters(wanted):
                letters = [one.letter for one in some if one.letter is not None]
                found += len(letters)
                if each:
                    rows += map(letter_row, letters[: limit - len(rows)])
                else:
                    _add(kinds, letters)
        if not each:
            rows = _kind_rows(kinds)
            found, rows = len(rows), rows[:limit]
        print_rows(rows, COLUMNS if each else COLUMNS_OF_KINDS, as_json=as_json)
        if found > len(rows):
            complain(f"{count(found - len(rows), 'more line')} not shown: raise --limit")

    run(command())


def _add(kinds: dict[tuple[str | None, str | None], _Kind], letters: list[DeadLetter]) -> None:
    for one in letters:
        name = (one.cause, kind_of(one.message))
        if name not in kinds and len(kinds) >= _KINDS_MAX:
            name = _OTHER_KINDS
        kind = kinds.setdefault(name, _Kind())
        kind.letters += 1
        kind.first_ms = min(kind.first_ms, one.failed_ms)
        kind.last_ms = max(kind.last_ms, one.failed_ms)


def _kind_rows(kinds: dict[tuple[str | None, str | None], _Kind]) -> list[dict[str, Any]]:
    """The kinds as lines, most letters first."""
    return [
        {
            "cause": cause,
            "message": message,
            "letters": kind.letters,
            "first": time_text(kind.first_ms),
            "last": time_text(kind.last_ms),
        }
        for (cause, message), kind in sorted(
            kinds.items(), key=lambda one: (-one[1].letters, str(one[0]))
        )
    ]


class _Place(NamedTuple):
    """A letter's place in the dead-letter topic."""

    partition: int
    offset: int


@dead.command(help=SHOW_HELP, epilog=EPILOG)
def show(
    group: Group,
    letter: Annotated[str, typer.Argument(metavar="LETTER", help="Such as 0:17.")],
    template: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="TEMPLATE", help="How to print the record."),
    ] = None,
    dead_letters: DeadLetters = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show; :data:`SHOW_HELP` has what the user reads."""

    async def command() -> ExitCode:
        place = _parse_place(letter)
        render = renderer(template, terminal=sys.stdout.isatty())
        broker = broker_of(bootstrap_server, command_config)
        async with queue_of(broker, group, dead_letters) as queue:
            found = await queue.letter(*place)
            if found is None:
                complain(f"{queue.topic} has no dead letter of {group} at {letter}")
                return ExitCode.REFUSED
            done = (await queue.done()).holds(*place)
            whole = await _whole(queue, found)
        shown = LogRecord(
            whole.topic, whole.partition, whole.offset, -1, whole.key, whole.value, whole.headers
        )
        said = {**letter_row(whole), "copy": found.has_copy, "done": done}
        if as_json:
            record = record_json(shown)
            print_json({**said, **{name: record[name] for name in ("key", "value", "headers")}})
            return ExitCode.DONE
        for name, value in said.items():
            lines = ["-"] if value is None else str(value).split("\n")
            print_line(f"{name + ':':<12}{lines[0]}")
            for line in lines[1:]:  # a traceback
                print_line(f"{'':<12}{line}")
        if template is None:
            print_line(f"{'key:':<12}{_text(whole.key)}")
            for name, value in whole.headers:
                print_line(f"{'header:':<12}{name}={_text(value)}")
        if not whole.has_copy:
            complain("the letter has no copy of the record, and the source topic has it no longer")
            return ExitCode.REFUSED
        print(flush=True)
        with Output() as output:
            await output.write(render(shown))
        return ExitCode.DONE

    run(command())


def _text(data: bytes | None) -> str:
    return "-" if data is None else data.decode(errors="backslashreplace")


async def _whole(queue: DeadLetterQueue, letter: DeadLetter) -> DeadLetter:
    """The letter with its record, if that is anywhere."""
    if letter.is_whole:
        return letter
    found = await queue.originals.of([letter])
    return found.get((letter.place, letter.place_offset), letter)


def _parse_place(text: str) -> _Place:
    partition, colon, offset = text.partition(":")
    if not colon or not (partition.isdecimal() and offset.isdecimal()) or len(text) > 28:
        raise UsageError(f"{text}: write a letter's partition and offset, such as 0:17")
    return _Place(int(partition), int(offset))


@dead.command(help=EXPORT_HELP, epilog=EPILOG)
def export(
    group: Group,
    where: Where = None,
    letters_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Export at most so many letters.")
    ] = None,
    dead_letters: DeadLetters = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Export; :data:`EXPORT_HELP` has what the user reads."""

    async def command() -> int:
        wanted = expression_of(where)
        broker = broker_of(bootstrap_server, command_config)
        render = renderer(JSON, terminal=False)
        with Stopping() as stopping, Output() as output:

            async def work() -> None:
                left = letters_max
                async with (
                    queue_of(broker, group, dead_letters) as queue,
                    aclosing(queue.letters(wanted)) as steps,
                ):
                    async for some in steps:
                        lines = [render(as_log_record(one.record)) for one in some[:left]]
                        if not await output.write(b"".join(lines)):
                            return
                        if left is not None:
                            left -= len(lines)
                            if not left:
                                return

            await stopping.unless_stopped(output.unless_closed(work()))
        return stopping.exit_code or ExitCode.DONE

    run(command())


@dead.command(help=PURGE_HELP, epilog=EPILOG)
def purge(
    group: Group,
    where: Where = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only letters that failed so long ago, as in 2d."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    dead_letters: DeadLetters = None,
    as_json: JsonSteps = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Purge; :data:`PURGE_HELP` has what the user reads."""

    async def command() -> int:
        wanted = Handling(redrive=False, where=expression_of(where, older_than), dry_run=dry_run)
        broker = broker_of(bootstrap_server, command_config)
        return await handled(broker, group, dead_letters, wanted, as_json=as_json)

    which = "all" if where is None and older_than is None else "these"
    if not dry_run:
        confirm(f"mark {which} dead letters of {group} as done, and never redrive them", yes=yes)
    run(command())
