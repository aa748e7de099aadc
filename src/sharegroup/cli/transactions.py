"""``sharegroup transactions``: list, describe, abort."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import complete_topics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.hanging import Hanging, abort_hanging, parse_hanging
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    finite,
    verbs,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, explain, run
from sharegroup.cli.tables import print_json, print_line, print_rows
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import TransactionDescription
from sharegroup.model.errors import KafkaError

transactions = verbs("Show and abort transactions.")

EXAMPLES: Final = """\
Examples:

\b
sharegroup transactions list --state Ongoing --longer-than 60
sharegroup transactions describe transfers
sharegroup transactions abort transfers --yes
sharegroup transactions abort --topic jobs --partition 0
sharegroup transactions abort --topic jobs --partition 0 --start-offset 4711 --yes
"""
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Transactional ids.")]
IdsOrNone = Annotated[
    list[str] | None, typer.Argument(metavar="ID…", help="Transactional ids.", show_default=False)
]
OfTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        "-t",
        help="Of a transaction that hangs in a partition.",
        autocompletion=complete_topics,
    ),
]
OfPartition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="The number of its partition.")
]
StartOffset = Annotated[
    int | None, typer.Option("--start-offset", min=0, help="The offset of its first record.")
]
ProducerId = Annotated[
    int | None, typer.Option("--producer-id", min=0, help="Of its producer, with its epoch.")
]
ProducerEpoch = Annotated[
    int | None, typer.Option("--producer-epoch", min=0, max=32767, help="Of its producer.")
]
CoordinatorEpoch = Annotated[
    int | None,
    typer.Option("--coordinator-epoch", min=0, help="Of its producer's coordinator.  [default: 0]"),
]


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(transactions, name="transactions")


@transactions.command("list", epilog=EXAMPLES)
def list_transactions(
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE,…", help=f"Only ids in these states: {', '.join(STATES)}."
        ),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than",
            metavar="SECONDS",
            min=0,
            callback=finite,
            help="Only ids whose last transaction began longer ago.",
        ),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List transactional ids, with the state of the last transaction of each."""

    async def command() -> None:
        wanted = parse_states(states or [])
        longer_ms = -1 if longer_than is None else int(longer_than * 1000)
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            rows = [
                {
                    "transactional_id": one.transactional_id,
                    "state": one.state,
                    "producer_id": one.producer_id,
                }
                for one in await admin.list_transactions(*wanted, open_longer_than_ms=longer_ms)
            ]
        print_rows(rows, ("transactional_id", "state", "producer_id"), as_json=as_json)

    run(command())


@transactions.command(epilog=EXAMPLES)
def describe(
    ids: Ids,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show transactional ids: the producer, how long the transaction has been open, and its
    partitions.
    """

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            found = await admin.describe_transactions(ids)
        rows = [_row(one) for one in found.values()]
        if as_json:
            print_json(rows)
            return
        for row in rows:
            row["partitions"] = " ".join(
                f"{p['topic']}-{p['partition']}" for p in row["partitions"]
            )
        print_rows(rows, tuple(rows[0]))

    run(command())


@transactions.command(epilog=EXAMPLES)
def abort(
    ids: IdsOrNone = None,
    topic: OfTopic = None,
    partition: OfPartition = None,
    start_offset: StartOffset = None,
    producer_id: ProducerId = None,
    producer_epoch: ProducerEpoch = None,
    coordinator_epoch: CoordinatorEpoch = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Abort the open transactions of transactional ids, and shut out their producers: what these
    send from now on is refused. Asks first, unless --yes is given.

    With --topic and --partition, end a transaction that hangs there: its coordinator does not know
    it, so that it never ends by itself, and readers of committed records wait at its first record.
    It is named by --start-offset, or by its producer; without both, those that are open are shown.
    That needs READ on the topic, and ALTER on the cluster. Do not use it for a transaction that
    `transactions list` shows as Ongoing: its producer may go on and commit the rest of it.
    """
    producer = (producer_id, producer_epoch, coordinator_epoch)
    wanted = list(dict.fromkeys(ids or []))
    try:
        hanging = parse_hanging(topic, partition, start_offset, producer)
        if (hanging is None) == (not wanted):
            raise UsageError("name transactional ids, or a partition with --topic and --partition")
    except UsageError as error:
        complain(error)
        raise typer.Exit(ExitCode.USAGE) from None

    async def command() -> ExitCode:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            if hanging is None:
                return await _abort_all(admin, wanted, as_json=as_json)
            return await _abort_in_partition(admin, hanging, as_json=as_json)

    if hanging is None:
        confirm(f"abort {', '.join(wanted)} and shut out the producers", yes=yes)
    elif hanging.named:
        confirm(f"abort {hanging}", yes=yes)
    run(command())


async def _abort_all(admin: Admin, wanted: list[str], *, as_json: bool) -> ExitCode:
    aborted: list[str] = []
    refused: dict[str, KafkaError] = {}
    for transactional_id in wanted:
        try:
            await _abort(admin, transactional_id)
            aborted.append(transactional_id)
        except KafkaError as error:
            refused[transactional_id] = error
    if as_json:
        errors = {name: why.name for name, why in refused.items()}
        print_json({"aborted": aborted, "refused": errors})
    elif aborted:
        print_line(f"{', '.join(aborted)} aborted")
    for name, why in refused.items():
        complain(f"{name}: {explain(why)}")
    return max((exit_code(why) for why in refused.values()), default=ExitCode.DONE)


async def _abort_in_partition(admin: Admin, hanging: Hanging, *, as_json: bool) -> ExitCode:
    aborted = await abort_hanging(admin, hanging)
    if as_json:
        print_json(aborted)
    else:
        print_line(f"{hanging} is aborted")
    return ExitCode.DONE


async def _abort(admin: Admin, transactional_id: str) -> None:
    """Abort the open transaction of an id. Raises TransactionalIdNotFound: an id that does not
    exist is not fenced, because that would create it."""
    await admin.describe_transactions([transactional_id])
    await admin.fence_producers(transactional_id)


def parse_states(texts: list[str]) -> list[str]:
    """The states of ``["ongoing,Empty", …]`` in Kafka's spelling.

    Raises:
        UsageError: there is no such state of a transaction.
    """
    known = {state.lower(): state for state in STATES}
    wanted = [state.strip() for text in texts for state in text.split(",")]
    for state in wanted:
        if state.lower() not in known:
            raise UsageError(
                f"--state {state}: the states of a transaction are {', '.join(STATES)}"
            )
    return [known[state.lower()] for state in wanted]


def _row(one: TransactionDescription) -> dict[str, Any]:
    is_open = one.started_ms is not None and one.state == "Ongoing"
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "open_ms": max(0, int(time.time() * 1000) - (one.started_ms or 0)) if is_open else None,
        "partitions": [{"topic": p.topic, "partition": p.partition} for p in one.partitions],
    }
