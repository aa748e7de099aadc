"""``sharegroup groups purge``: give up the records of a share group that are not finished."""

from __future__ import annotations

from typing import Annotated

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group, OnlyTopics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import ExitCode, UsageError, complain, run
from sharegroup.cli.tables import print_rows
from sharegroup.client.core.letter_expression import duration_ms


def purge(
    group: Group,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only records that are so old, as in 2d."),
    ] = None,
    topics: OnlyTopics = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Give up the records of a share group that are not finished: they are never delivered to it
    again. Asks first, unless --yes is given.

    Records that members hold are given up too: what the members answer later has no effect. So are
    records that nobody has got yet. They become no dead letters. The topic keeps them, for other
    groups and for its retention. It cannot be undone, but for groups reset-offsets.

    How old a record is says its timestamp; the first record that is younger ends the purge of its
    partition. Dead letters of the group stay: sharegroup dead purge is about them.
    """

    async def command() -> ExitCode:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            purged = await admin.purge_group(group, older_than_ms=older_than_ms, topics=topics)
        rows = [
            {
                "topic": at.topic,
                "partition": at.partition,
                "purged": decided.records,
                "held": decided.held,
            }
            for at, decided in sorted(purged.items())
        ]
        print_rows(rows, ("topic", "partition", "purged", "held"), as_json=as_json)
        return ExitCode.DONE

    older_than_ms = None if older_than is None else duration_ms(older_than)
    if older_than is not None and older_than_ms is None:
        complain(UsageError(f"--older-than {older_than}: write a duration, such as 12h or 2d"))
        raise typer.Exit(ExitCode.USAGE)
    which = "all its records" if older_than is None else f"its records older than {older_than}"
    if topics:
        which += f" in {', '.join(topics)}"
    confirm(f"purge {group}: give up {which}, and never deliver them to it", yes=yes)
    run(command())
