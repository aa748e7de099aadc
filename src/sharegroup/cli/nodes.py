"""``sharegroup nodes``: list, drain, resume."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.group_kinds import TYPES, GroupKind
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.tables import print_json, print_line, print_rows
from sharegroup.client.admin.admin import Admin
from sharegroup.model.errors import KafkaError

nodes = verbs("Show the brokers that share the work, and take one out of it.")

EXAMPLES: Final = """\
Examples:

\b
sharegroup nodes list
sharegroup nodes drain 737664338
sharegroup nodes resume 737664338
"""
DRAIN: Final = "node.drain"
LOOKS: Final = 100
LOOK_S: Final = 0.1
"""So often, and with such a pause, a node that is to hand over is looked at."""

NodeId = Annotated[int, typer.Argument(metavar="NODE", help="Its id, as in the list.")]


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(nodes, name="nodes")


@nodes.command("list", epilog=EXAMPLES)
def list_nodes(
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List the brokers: how many partitions each leads, how many share groups it coordinates, and
    whether it is drained."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            rows = await _rows(admin)
        if as_json:
            print_json(rows)
            return
        print_rows(
            [{**row, "drained": "yes" if row["drained"] else None} for row in rows],
            ("node", "address", "rack", "partitions", "share_groups", "drained"),
        )

    run(command())


@nodes.command("drain", epilog=EXAMPLES)
def drain_node(
    node: NodeId,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Let a broker hand all it has to the others, and take nothing until it is resumed, also after
    a restart. The last one that is not drained keeps everything."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await _check(admin, node)
            await admin.alter_configs("broker", str(node), {DRAIN: "true"})
            for _ in range(LOOKS):
                left = (await _led(admin))[node]
                if not left:
                    print_line(f"{node} is drained: it leads no partition")
                    return
                await asyncio.sleep(LOOK_S)
        raise UsageError(f"{node} still leads {left} partitions: is there another broker?")

    run(command())


@nodes.command("resume", epilog=EXAMPLES)
def resume_node(
    node: NodeId,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Give a broker that was drained a part of the work again."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await _check(admin, node)
            await admin.alter_configs("broker", str(node), {DRAIN: None})
        print_line(f"{node} takes part again")

    run(command())


async def _check(admin: Admin, node: int) -> None:
    known = [one.node_id for one in (await admin.describe_cluster()).nodes]
    if node not in known:
        raise UsageError(f"there is no node {node}; there are: {', '.join(map(str, known))}")


async def _led(admin: Admin) -> Counter[int]:
    """Node → how many partitions it leads."""
    names = [one.name for one in await admin.list_topics()]
    topics = await admin.describe_topics(*names) if names else {}
    return Counter(
        one.leader
        for topic in topics.values()
        for one in topic.partitions
        if one.leader is not None
    )


async def _rows(admin: Admin) -> list[dict[str, Any]]:
    cluster = await admin.describe_cluster()
    led = await _led(admin)
    ids = [one.group_id for one in await admin.list_groups(*TYPES[GroupKind.SHARE])]
    groups = Counter(one.coordinator for one in (await admin.describe_share_groups(ids)).values())
    return [
        {
            "node": one.node_id,
            "address": f"{one.host}:{one.port}",
            "rack": one.rack,
            "partitions": led[one.node_id],
            "share_groups": groups[one.node_id],
            "drained": await _is_drained(admin, one.node_id),
        }
        for one in sorted(cluster.nodes, key=lambda one: one.node_id)
    ]


async def _is_drained(admin: Admin, node: int) -> bool | None:
    """None: the broker does not say."""
    try:
        found = await admin.describe_configs("broker", str(node))
    except KafkaError:
        return None
    return DRAIN in found and found[DRAIN].value == "true"
