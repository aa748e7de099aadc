"""``sharegroup groups pause`` and ``resume``: stop the delivery to a share group for a while."""

from __future__ import annotations

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, CommandConfig
from sharegroup.cli.outcome import run
from sharegroup.cli.tables import print_line


def pause(
    group: Group,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Deliver no records to a share group until groups resume. Holds when the broker restarts, too.
    Asks first, unless --yes is given.

    Consumers of any kind stay members, and their fetches wait. What they hold they can still
    acknowledge, and locks that run out make records available again, as ever. When the command
    returns, no record is delivered any more. groups describe shows that the group is paused.

    It sets share.paused of the group: groups set GROUP share.paused=true does the same, also for a
    group that does not exist yet.
    """

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.pause_group(group)
        print_line(f"{group} is paused")

    confirm(f"pause {group}: deliver no records to it until it is resumed", yes=yes)
    run(command())


def resume(
    group: Group,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Deliver records to a share group again. Fetches that wait go on at once."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.resume_group(group)
        print_line(f"{group} is resumed")

    run(command())
