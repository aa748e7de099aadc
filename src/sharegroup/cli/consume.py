"""``sharegroup consume``: prints records, as a member of a share group or with ``--peek``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from sharegroup.cli.completion import complete_groups, complete_topics
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.consuming import Ack, ConsumeOptions, consume_group
from sharegroup.cli.key_ranges import parse_key_ranges
from sharegroup.cli.log_printing import COMMITTED, UNCOMMITTED, Look, peek
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    CommandConfig,
    finite,
)
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.record_format import JSON
from sharegroup.cli.value_decoder import ValueDecoder

HELP: Final = """\
Print records: as a member of a share group, which acknowledges them, or with --peek.

Prints one record per line, only its value, unless --format says otherwise. In a file or a pipe
the bytes of the value are unchanged; on a terminal control characters are escaped.
With --group, printed records are acknowledged; in a pipe, those that its reader has read. When
the reader closes the pipe (`| head -2`), and on Ctrl-C, the other records are released.
With --confirmed-by, what it has not confirmed is released too: `produce --confirm-to` does.

With --peek, records are read from the log: nothing is acquired, and no group changes. PLACE is
earliest, latest, an offset, -5 (five before the end), a time such as 2026-11-21T08:30 (UTC),
or a duration such as PT15M (15 minutes ago). Records of aborted transactions are left out, and
those behind the first record of an open one are shown when it has ended;
--isolation-level read_uncommitted shows all that is in the log.
--key-range and --key-ranges do the same, for some keys of a topic with accept.range.fetch=true.

TEMPLATE is text with fields: %t topic, %p partition, %o offset, %k key, %s value, %h headers,
%T timestamp, %K and %S bytes of key and value (-1: null), %d delivery count, %%; and \\n, \\t,
\\r, \\0, \\xHH, \\\\. `json` prints all fields, in the form that `produce --format json` reads.

--decoder prints what a function of yours makes of a value's bytes: text, or an object as JSON.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup consume jobs -g workers --from-beginning -n 10
sharegroup consume jobs -g workers --ack release | head -2
sharegroup consume jobs --peek --from -5 --until latest
sharegroup consume jobs --peek --from 2026-11-21T08:30 --format '%p/%o %k: %s\\n'
sharegroup consume jobs --peek --key-range 2/4
sharegroup consume jobs --peek --until latest --format json > jobs.jsonl
mkfifo arrived
sharegroup consume dead -g redrive --format json --confirmed-by arrived |
  sharegroup produce jobs --format json --confirm-to arrived

Exit status: as for all commands; 0 also when the reader of the pipe has closed it.
"""


class Isolation(StrEnum):
    """Kafka's ``isolation.level``."""

    COMMITTED = COMMITTED
    UNCOMMITTED = UNCOMMITTED


Topics = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC…", help="Topics.", autocompletion=complete_topics),
]
Group = Annotated[
    str | None,
    typer.Option("--group", "-g", help="The share group.", autocompletion=complete_groups),
]
Peek = Annotated[
    bool, typer.Option("--peek", help="Read without a group; nothing is acquired or acknowledged.")
]
Max = Annotated[
    int | None, typer.Option("--max", "-n", min=1, help="Stop after this many records.")
]
AckOption = Annotated[
    Ack | None, typer.Option(help="How to acknowledge a printed record.  [default: accept]")
]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="If the group is new, begin at the first record."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="PLACE", help="With --peek: where to begin.  [default: earliest]"
    ),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="PLACE", help="With --peek: where to end (exclusive)."),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="With --peek: only this partition; repeatable."),
]
KeyPart = Annotated[
    str | None,
    typer.Option("--key-range", metavar="I/N", help="Read the I-th of N equal parts of the keys."),
]
KeyRanges = Annotated[
    str | None,
    typer.Option(metavar="FIRST-LAST[,…]", help="Read keys whose hash lies in these ranges."),
]
IsolationLevel = Annotated[
    Isolation | None,
    typer.Option(
        help="With --peek: whether records of aborted and open transactions are left out."
        "  [default: read_committed]"
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0,
        callback=finite,
        help="Stop when no record has come for this many seconds.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option("--format", "-f", metavar="json|TEMPLATE", help="How to print a record."),
]
ConfirmedBy = Annotated[
    str | None,
    typer.Option(
        metavar="PIPE",
        help="Acknowledge what the reader confirms through this named pipe, and only that.",
    ),
]
Decoder = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Print what this function makes of the bytes of a value.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("consume", help=HELP, epilog=EPILOG)(consume)


def consume(
    topics: Topics,
    group: Group = None,
    peek_only: Peek = False,
    records_max: Max = None,
    ack: AckOption = None,
    from_beginning: FromBeginning = False,
    start: From = None,
    until: Until = None,
    partitions: Partitions = None,
    key_part: KeyPart = None,
    key_ranges: KeyRanges = None,
    isolation_level: IsolationLevel = None,
    idle_s: Timeout = None,
    template: Template = None,
    as_json: Json = False,
    decoder: Decoder = None,
    confirmed_by: ConfirmedBy = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Print records; :data:`HELP` has what the user reads."""

    async def command() -> int:
        ranges = parse_key_ranges(key_part, key_ranges)
        broker = broker_of(bootstrap_server, command_config)
        form = _form(template, as_json)
        if decoder is not None and form == JSON:
            raise UsageError("--decoder and JSON exclude each other: JSON has values as they are")
        decode = None if decoder is None else ValueDecoder(decoder)
        if peek_only or (ranges and group is None):
            of_group: dict[str, object] = {"--group": group, "--confirmed-by": confirmed_by}
            _refuse(of_group | {"--ack": ack, "--from-beginning": from_beginning}, "--peek")
            look = Look(
                topics=topics,
                partitions=partitions or [],
                start=start or "earliest",
                until=until,
                records_max=records_max,
                idle_s=idle_s,
                template=form,
                decoder=decode,
                key_ranges=ranges,
                committed=isolation_level is not Isolation.UNCOMMITTED,
                broker=broker,
            )
            return await peek(look)
        of_peek: dict[str, object] = {"--from": start, "--until": until, "--partition": partitions}
        of_peek["--isolation-level"] = isolation_level
        wanted = ConsumeOptions(
            topics=topics,
            group=_named(group, {**of_peek, "key ranges": ranges}),
            records_max=records_max,
            ack=ack or Ack.ACCEPT,
            template=form,
            decoder=decode,
            idle_s=idle_s,
            from_beginning=from_beginning,
            confirmed_by=confirmed_by,
            broker=broker,
        )
        return await consume_group(wanted)

    run(command())


def _named(group: str | None, of_peek: dict[str, object]) -> str:
    if group is None:
        raise UsageError("name a share group with --group, or read without one with --peek")
    _refuse(of_peek, "--group")
    return group


def _form(template: str | None, as_json: bool) -> str | None:
    if as_json and template not in (None, JSON):
        raise typer.BadParameter("--json and --format TEMPLATE exclude each other")
    return JSON if as_json else template


def _refuse(options: dict[str, object], beside: str) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(f"{' and '.join(given)} cannot be given with {beside}")
