"""What the commands about dead letters have in common: their options, and how they show letters."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import reach
from sharegroup.cli.completion import complete_topics
from sharegroup.cli.connecting import BrokerAddress
from sharegroup.client.core.dead_letter import REDRIVEN, DeadLetter
from sharegroup.client.core.letter_expression import BadExpression, LetterExpression
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.dates import DATE_MAX_MS
from sharegroup.model.printable import printable

if TYPE_CHECKING:
    from sharegroup.client.dead_letters.queue import DeadLetterQueue

EXPRESSIONS: Final = """\
EXPRESSION chooses letters by topic, partition, offset (of the record that failed), cause, message,
member, deliveries, failed (a time), age (90s, 15m, 12h, 2d), key and headers["name"], with
== != < <= > >=, in, and, or, not, and `matches` for a regular expression that is searched for:
'cause == "rejected" and message matches "time.?out" and age < 2d', 'headers["tenant"] in ("a",
"b")', 'failed >= "2026-11-27T08:00"' (UTC). What a letter does not have is None.
"""

Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="EXPRESSION", help="Only letters for which it is true."),
]
DeadLetters = Annotated[
    str | None,
    typer.Option(
        "--dead-letters",
        metavar="TOPIC",
        help="The topic with the letters.  [default: the group's "
        "errors.deadletterqueue.topic.name]",
        autocompletion=complete_topics,
    ),
]
JsonSteps = Annotated[
    bool, typer.Option("--json", help="Print a line of JSON for each transaction, and the end.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and count the letters.")]


@asynccontextmanager
async def queue_of(
    broker: BrokerAddress, group: str, topic: str | None
) -> AsyncIterator[DeadLetterQueue]:
    """The dead letters of a group, at a broker that was reached.

    Raises:
        BootstrapError, ConfigError: the broker cannot be reached, or the topic is not known.
    """
    # Imported here: it loads consumer and producer, which other commands of `groups` do not need.
    from sharegroup.client.dead_letters.queue import dead_letter_queue

    await reach(broker)
    cluster = Cluster(broker.servers, allow_auto_create_topics=False, **broker.arguments)
    async with dead_letter_queue(cluster, group, topic) as queue:
        yield queue


def expression_of(where: str | None, older_than: str | None = None) -> LetterExpression | None:
    """The letters that the options choose; None: all.

    Raises:
        BadExpression: an expression is wrong.
    """
    try:
        wanted = None if where is None else LetterExpression(where)
        if older_than is None:
            return wanted
        old = f"age >= {older_than}"
        LetterExpression(old)
        return LetterExpression(old if where is None else f"{old} and ({where})")
    except BadExpression as error:
        for line in error.pointer:
            print(f"  {printable(line)}", file=sys.stderr)
        raise


def time_text(ms: int) -> str | None:
    """A time as ``2026-11-27T08:30:00Z``; None: there is none."""
    if not 0 <= ms <= DATE_MAX_MS:
        return None
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """A letter as a line of a table, or as JSON."""
    return {
        "letter": f"{letter.place.partition}:{letter.place_offset}",
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "cause": letter.cause,
        "message": letter.message,
        "member": letter.member,
        "deliveries": letter.deliveries,
        "failed": time_text(letter.failed_ms),
        "redriven": times_redriven(letter),
        "copy": letter.has_copy,
    }


def times_redriven(letter: DeadLetter) -> int:
    """How often the record was redriven before it failed."""
    found = [data for name, data in letter.headers if name == REDRIVEN and data]
    return int(found[-1]) if found and found[-1].isdigit() else 0
