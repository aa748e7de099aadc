"""``sharegroup groups``: list, describe, set, delete."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, Group
from sharegroup.cli.outcome import run
from sharegroup.cli.settings import own_settings, parse_settings
from sharegroup.cli.tables import print_json, print_rows, print_table
from sharegroup.client.admin import Admin
from sharegroup.client.descriptions import MemberDescription, ShareGroupOffset
from sharegroup.model.ids import TopicPartition

groups = typer.Typer(no_args_is_help=True, help="List, describe, set and delete share groups.")

MEMBER_COLUMNS: Final = ("member", "client", "host", "epoch", "assigned")
PARTITION_COLUMNS: Final = ("topic", "partition", "start_offset", "in_flight", "lag")


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(groups, name="groups")


@groups.command("list")
def list_groups(
    as_json: AsJson = False, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER
) -> None:
    """List share groups."""

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
            rows = [
                {"group": group.group_id, "state": group.state}
                for group in await admin.list_groups("share")
            ]
        print_rows(rows, ("group", "state"), as_json=as_json)

    run(command())


@groups.command()
def describe(
    group: Group,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show a share group's members, its settings, and how far it is in each partition.

    Start offset: everything before it is done. In flight: records that members hold now (Apache
    Kafka does not tell). Lag: records that are not done yet.
    """

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
            found = await _described(admin, group)
        if as_json:
            print_json(found)
        else:
            _print_group(found)

    run(command())


@groups.command("set")
def set_settings(
    group: Group,
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE…", help="Settings; KEY= takes one back to its default."),
    ],
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Set settings of a share group, which need not exist yet.

    For example share.auto.offset.reset=earliest or share.record.lock.duration.ms=60000.
    """

    async def command() -> None:
        wanted = {key: value or None for key, value in parse_settings(pairs).items()}
        async with Admin(bootstrap_server) as admin:
            await admin.alter_configs("group", group, wanted)
            own = own_settings(await admin.describe_configs("group", group))
        if as_json:
            print_json({"group": group, "configs": own})
        else:
            print_table(("setting", "value"), own.items())

    run(command())


@groups.command()
def delete(
    group: Group,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete a share group that has no members, with all that it knows of its records."""

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
            await admin.delete_groups(group)
        if as_json:
            print_json({"deleted": [group]})
        else:
            print(f"{group} deleted")

    run(command())


async def _described(admin: Admin, group: str) -> dict[str, Any]:
    found = (await admin.describe_share_groups([group]))[group]
    offsets = await admin.list_share_group_offsets(group)
    configs = await admin.describe_configs("group", group)
    return {
        "group": group,
        "state": found.state,
        "epoch": found.group_epoch,
        "assignor": found.assignor,
        "members": [_member(member) for member in found.members],
        "partitions": [_partition(where, offset) for where, offset in offsets.items()],
        "configs": own_settings(configs),
    }


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "rack": member.rack_id,
        "epoch": member.member_epoch,
        "topics": list(member.topics),
        "assignment": [
            {"topic": where.topic, "partition": where.partition} for where in member.assignment
        ],
    }


def _partition(where: TopicPartition, offset: ShareGroupOffset) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        "start_offset": offset.start_offset,
        "in_flight": offset.in_flight,
        "lag": offset.lag,
        "error": None if offset.error is None else offset.error.name,
    }


def _print_group(found: dict[str, Any]) -> None:
    print(f"group {found['group']}, {found['state'].lower()}, epoch {found['epoch']}")
    if found["members"]:
        members = [{**member, "assigned": len(member["assignment"])} for member in found["members"]]
        print_rows(members, MEMBER_COLUMNS)
    if found["partitions"]:
        print_rows(found["partitions"], PARTITION_COLUMNS)
    if found["configs"]:
        print_table(("setting", "value"), found["configs"].items())
