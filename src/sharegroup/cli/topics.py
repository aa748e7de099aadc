"""``sharegroup topics``: create, list, describe, delete."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sharegroup.cli.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from sharegroup.cli.outcome import ExitCode, complain, exit_code, explain, run
from sharegroup.cli.settings import parse_settings, settings_if_shown
from sharegroup.cli.tables import count, print_json, print_line, print_rows, print_table
from sharegroup.client.admin import Admin
from sharegroup.client.descriptions import OffsetSpec
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition, topic_id_text

PARTITION_COLUMNS: Final = ("partition", "leader", "earliest", "latest")

topics = typer.Typer(no_args_is_help=True, help="Create, list, describe and delete topics.")


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(topics, name="topics")


@topics.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="The broker's num.partitions by default."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting; repeatable."),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Create a topic."""

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
            counted = {} if partitions is None else {"partitions": partitions}
            await admin.create_topics(name, configs=parse_settings(config or []), **counted)
            [topic] = (await admin.describe_topics(name)).values()
            if as_json:
                print_json({"topic": name, "partitions": len(topic.partitions)})
            else:
                print_line(f"{name} created, {count(len(topic.partitions), 'partition')}")

    run(command())


@topics.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Show the broker's own topics too.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List topics."""

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
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
    name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show a topic's partitions, their offsets, and the settings that are not defaults."""

    async def command() -> None:
        async with Admin(bootstrap_server) as admin:
            topic = await _described(admin, name)
        if as_json:
            print_json(topic)
            return
        print_line(f"topic {name}, id {topic['id']}")
        print_rows(topic["partitions"], PARTITION_COLUMNS)
        if topic["configs"]:
            print_table(("setting", "value"), topic["configs"].items())

    run(command())


@topics.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME…")],
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete topics with all their records."""

    async def command() -> ExitCode:
        refused: dict[str, KafkaError] = {}
        async with Admin(bootstrap_server) as admin:
            for name in names:
                try:
                    await admin.delete_topics(name)
                except KafkaError as error:
                    refused[name] = error
        deleted = [name for name in names if name not in refused]
        if as_json:
            errors = {name: why.name for name, why in refused.items()}
            print_json({"deleted": deleted, "refused": errors})
        elif deleted:
            print_line(f"{', '.join(deleted)} deleted")
        for name, why in refused.items():
            complain(f"{name}: {explain(why)}")
        return max((exit_code(why) for why in refused.values()), default=ExitCode.DONE)

    run(command())


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
