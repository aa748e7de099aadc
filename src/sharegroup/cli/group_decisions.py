"""``sharegroup groups release`` and ``archive``: let the key of a blocked record go on."""

from __future__ import annotations

from typing import Annotated

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group, Topic
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import run
from sharegroup.cli.tables import print_line
from sharegroup.model.ids import TopicPartition

Partition = Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Its number.")]
Offset = Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Of the blocked record.")]


def release(
    group: Group,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Deliver a blocked record once more; its key goes on when it is accepted. Holds when the
    broker stops, too.

    A record is blocked when it has failed at the delivery limit, in a group with
    share.ordering=key and share.ordering.on.failure=block; groups records --state blocked shows
    them. Its delivery count is set to one below the limit; if it fails again, it is blocked again.
    """

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.release_blocked_record(group, TopicPartition(topic, partition), offset)
        print_line(f"{topic}:{partition} offset {offset} is delivered again")

    run(command())


def archive(
    group: Group,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Give up a blocked record: it is never delivered again, and its key goes on. Asks first,
    unless --yes is given.

    See sharegroup groups release --help for what a blocked record is.
    """

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.archive_blocked_record(group, TopicPartition(topic, partition), offset)
        print_line(f"{topic}:{partition} offset {offset} is archived")

    confirm(f"archive {topic}:{partition} offset {offset}: never deliver it again", yes=yes)
    run(command())
