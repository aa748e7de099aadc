"""``sharegroup topics``: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import complete_topics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, explain, run
from sharegroup.cli.settings import parse_settings, settings_if_shown
from sharegroup.cli.tables import count, print_json, print_line, print_rows, print_table
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.model.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition, topic_id_text

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_topics)]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", autocompletion=complete_topics)]

EXAMPLES: Final = """\
Examples:

\b
sharegroup topics create jobs --partitions 4 --if-not-exists
sharegroup topics alter jobs --partitions 8 --config retention.ms=86400000
sharegroup topics delete jobs --if-exists --yes
"""
PARTITION_COLUMNS: Final = ("partition", "leader", "earliest", "latest")

topics = verbs("Create, list, describe, alter and delete topics.")


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(topics, name="topics")


@topics.command(epilog=EXAMPLES)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="By default num.partitions of the broker."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting; repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool,
        typer.Option("--if-not-exists", help="No error if the topic exists; it is not changed."),
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Create a topic."""

    async def command() -> None:
        settings = parse_settings(config or [])
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            counted = -1 if partitions is None else partitions  # -1: as many as the broker sets
            created = True
            try:
                await admin.create_topics(name, configs=settings, partitions=counted)
            except TopicAlreadyExists:
                if not if_not_exists:
                    raise
                created = False
            [topic] = (await admin.describe_topics(name)).values()
        number = len(topic.partitions)
        if as_json:
            print_json({"topic": name, "partitions": number, "created": created})
        else:
            done = "created" if created else "exists"
            print_line(f"{name} {done}, {count(number, 'partition')}")

    run(command())


@topics.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Show the broker's own topics too.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List topics."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            rows = [
                {
                    "topic": topic.name,
                    "partitions": topic.partition_count,
                    "id": topic_id_text(topic.topic_id),
                    "internal": topic.is_internal,
                }
                for topic in await admin.list_topics(include_internal=internal)
            ]
        print_rows(rows, ("topic", "partitions", "id"), as_json=as_json)

    run(command())


@topics.command()
def describe(
    name: Name,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show a topic's partitions, their offsets, and its settings that are not defaults."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            topic = await _described(admin, name)
        _show(topic, as_json=as_json)

    run(command())


@topics.command(epilog=EXAMPLES)
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="New number; it can only grow."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="KEY=VALUE",
            help="A setting; KEY= resets it to its default. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Change a topic's settings, or add partitions to it.

    After that, new records with a key may go to another partition than earlier ones.
    """

    async def command() -> None:
        wanted = {key: value or None for key, value in parse_settings(config or []).items()}
        if not wanted and partitions is None:
            raise UsageError("choose what to change, with --partitions or --config")
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            if wanted:
                await admin.alter_configs("topic", name, wanted)
            if partitions is not None:
                await admin.create_partitions(name, partitions)
            topic = await _described(admin, name)
        _show(topic, as_json=as_json)

    run(command())


@topics.command(epilog=EXAMPLES)
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="No error if a topic does not exist.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Delete topics and all their records. Asks first, unless --yes is given."""
    wanted = list(dict.fromkeys(names))

    async def command() -> ExitCode:
        deleted: list[str] = []
        refused: dict[str, KafkaError] = {}
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            for name in wanted:
                try:
                    await admin.delete_topics(name)
                    deleted.append(name)
                except UnknownTopicOrPartition as error:
                    if not if_exists:
                        refused[name] = error
                except KafkaError as error:
                    refused[name] = error
        if as_json:
            errors = {name: why.name for name, why in refused.items()}
            print_json({"deleted": deleted, "refused": errors})
        elif deleted:
            print_line(f"{', '.join(deleted)} deleted")
        for name, why in refused.items():
            complain(f"{name}: {explain(why)}")
        return max((exit_code(why) for why in refused.values()), default=ExitCode.DONE)

    confirm(f"delete {', '.join(wanted)} with all records", yes=yes)
    run(command())


def _show(topic: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(topic)
        return
    print_line(f"topic {topic['topic']}, id {topic['id']}")
    print_rows(topic["partitions"], PARTITION_COLUMNS)
    if topic["configs"]:
        print_table(("setting", "value"), topic["configs"].items())


async def _described(admin: Admin, name: str) -> dict[str, Any]:
    topic = (await admin.describe_topics(name))[name]
    led = [TopicPartition(name, p.partition) for p in topic.partitions if p.leader is not None]
    earliest = await admin.list_offsets(led, OffsetSpec.EARLIEST)
    latest = await admin.list_offsets(led, OffsetSpec.LATEST)
    return {
        "topic": name,
        "id": topic_id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "earliest": earliest[where].offset if where in earliest else None,
                "latest": latest[where].offset if where in latest else None,
            }
            for p in topic.partitions
            for where in [TopicPartition(name, p.partition)]
        ],
        "configs": await settings_if_shown(admin, "topic", name),
    }
