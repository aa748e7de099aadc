"""``sharegroup move``: topics and groups from one broker to another."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import reach
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import AsJson
from sharegroup.cli.outcome import ExitCode, complain, run
from sharegroup.cli.stopping import Stopping
from sharegroup.cli.tables import print_json, print_line, print_rows

if TYPE_CHECKING:
    from rich.progress import Progress

    from sharegroup.move.moving import Copied, Moved, Outcome
    from sharegroup.move.side import Side

HELP: Final = """\
Move topics with their records, and groups with their progress, from one broker to another: from a
machine that ran out of room to brokers in front of a Kafka cluster, or back.

Both run. From a data folder alone: let sharegroup serve --data run on it. Stop all producers and
members first; a group that has members is refused. At the source nothing is changed or deleted.

Records keep their order, key, value, headers and timestamp. What transactions aborted is left out,
so offsets may be others; the progress of groups is translated. For share groups that is: which
records are finished, how often each other one was delivered, and when it is due. For consumer
groups it is the committed offsets. Settings of topics and groups come along; those that the target
does not take are named. Users, ACLs and quotas do not, nor what a topic remembers of message ids
and of its producers.

What is interrupted goes on with the same command: records that the target has are compared, and not
copied again. If it has others, the topic is refused, before anything is changed.

The target must allow to create topics, to write to them, and, for share groups, CLUSTER_ACTION.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup move --from 127.0.0.1:9092 --to queues-1:9092 --dry-run
sharegroup move --from 127.0.0.1:9092 --to queues-1:9092 --to-config client.properties
sharegroup move --from queues-1:9092 --to 127.0.0.1:9092 --topic jobs --group workers

Exit status: as for all commands; 1 also if a group has another number of records left than before.
"""


CLIENT_ID: Final = "sharegroup-move"
"""By which a quota knows the command."""
TOPIC_COLUMNS: Final = ("topic", "partitions", "copied", "there_before", "offsets")
GROUP_COLUMNS: Final = ("group", "kind", "partitions", "left_before", "left_after")


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("move", help=HELP, epilog=EPILOG)(move)


def _config(name: str, side: str) -> Any:
    return typer.Option(
        name,
        metavar="FILE",
        help=f"Properties of the connection to the {side}, as --command-config.",
    )


def move(
    source: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT", help="The broker to move from.")
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT", help="The broker to move to.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; repeatable. By default all."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="A group; repeatable. By default all that have progress in the topics.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything, and write nothing.")
    ] = False,
    source_config: Annotated[str | None, _config("--from-config", "source")] = None,
    target_config: Annotated[str | None, _config("--to-config", "target")] = None,
    as_json: AsJson = False,
) -> None:
    """Move; :data:`HELP` has what the user reads."""

    async def command() -> int:
        # Imported here: the other commands do not need it.
        from sharegroup.move.moving import Wanted
        from sharegroup.move.moving import move as move_all
        from sharegroup.move.side import Sides

        progress = _Progress()

        async def work() -> Outcome:
            async with _side(source, source_config) as here, _side(target, target_config) as there:
                wanted = Wanted(
                    tuple(dict.fromkeys(topic or ())),
                    tuple(dict.fromkeys(group or ())),
                    dry_run=dry_run,
                    told=progress.told,
                    begun=progress.begun,
                )
                return await move_all(Sides(here, there), wanted)

        with Stopping() as stopping, progress.shown():
            outcome = await stopping.unless_stopped(work())
        if outcome is None:
            complain("not all is moved: the same command goes on")
            return stopping.exit_code or ExitCode.INTERRUPTED
        return _report(outcome, dry_run=dry_run, as_json=as_json)

    run(command())


@asynccontextmanager
async def _side(servers: str, config: str | None) -> AsyncIterator[Side]:
    from sharegroup.client.admin.admin import Admin
    from sharegroup.client.network.cluster import Cluster
    from sharegroup.move.side import Side

    broker = broker_of(servers, config)
    arguments = {"client_id": CLIENT_ID, **broker.arguments}
    await reach(broker)
    async with (
        Cluster(broker.servers, allow_auto_create_topics=False, **arguments) as cluster,
        Admin(cluster=cluster) as admin,
    ):
        yield Side(servers, cluster, admin)


class _Progress:
    """A bar on stderr, if that is a terminal."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as self._bar:
            self._bar.add_task("", total=None)
            yield

    def begun(self, offsets: int) -> None:
        """So many offsets are to be compared or copied."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=offsets)

    def told(self, records: int) -> None:
        """It got further by so many records."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], records)


def _report(outcome: Outcome, *, dry_run: bool, as_json: bool) -> ExitCode:
    """Print the outcome; returns the exit status."""
    topics = [_topic_row(one) for one in outcome.topics]
    groups = [_group_row(one) for one in outcome.groups]
    if as_json:
        print_json({"dry_run": dry_run, "topics": topics, "groups": groups})
    else:
        print_rows(topics, TOPIC_COLUMNS)
        if groups:
            print_line("")
            print_rows(groups, GROUP_COLUMNS)
        if dry_run:
            print_line("")
            print_line("nothing was written: this was a dry run")
    for one in outcome.topics:
        for setting in one.topic.left_out:
            complain(f"topic {one.topic.name}: the target does not take {setting}")
    for each in outcome.groups:
        for setting in each.group.left_out:
            complain(f"group {each.group.name}: the target does not take {setting}")
    wrong = [one for one in outcome.groups if not one.same]
    for each in wrong:
        complain(
            f"group {each.group.name} had {each.before} records left, and has {each.after} now"
            + "".join(f"; {where} has other progress" for where in each.changed)
        )
    return ExitCode.REFUSED if wrong else ExitCode.DONE


def _topic_row(one: Copied) -> dict[str, Any]:
    return {
        "topic": one.topic.name,
        "partitions": one.topic.partitions,
        "copied": one.copied,
        "there_before": one.there,
        "offsets": "others" if one.moved else "the same",
        "settings_left_out": one.topic.left_out,
    }


def _group_row(one: Moved) -> dict[str, Any]:
    return {
        "group": one.group.name,
        "kind": "share" if one.group.shares else "consumer",
        "partitions": len(one.group.partitions),
        "left_before": one.before,
        "left_after": one.after,
        "settings_left_out": one.group.left_out,
    }
