"""``sharegroup groups fork``: a share group begins with another one's state of every record."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import run
from sharegroup.cli.tables import count, print_line

FORK_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups fork workers workers-new --yes
sharegroup consume jobs --group workers-new
"""
New = Annotated[str, typer.Argument(metavar="NEW", help="The group that begins.")]


def fork(
    group: Group,
    new: New,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Let the share group NEW begin with the state of every record of GROUP: what is finished there
    is finished here, too. Asks first, unless --yes is given.

    NEW must have no members; it is created if it does not exist. Its own state of these topics is
    dropped, its settings stay. GROUP may have members: what they hold is available in NEW. From
    then on the groups know nothing of each other: each gets all records that are not finished.
    """

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            partitions = await admin.fork_share_group(group, new)
        print_line(f"{new} has the state of {group} in {count(len(partitions), 'partition')}")

    confirm(f"let {new} begin with the state of {group}, and drop its own", yes=yes)
    run(command())
