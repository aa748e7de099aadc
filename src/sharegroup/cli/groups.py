"""``sharegroup groups``: list, describe, pause, resume, records, purge, fork, release, archive,
redrive, reset-offsets, delete-offsets, delete, set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import Group, complete_topics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.group_choice import (
    AllGroups,
    Groups,
    check_choice,
    chosen_groups,
    why_refused,
)
from sharegroup.cli.group_decisions import archive, release
from sharegroup.cli.group_descriptions import describe
from sharegroup.cli.group_fork import FORK_EXAMPLES, fork
from sharegroup.cli.group_kinds import TYPES, GroupKind, KindOption, kinds_of
from sharegroup.cli.group_pauses import pause, resume
from sharegroup.cli.group_purge import purge
from sharegroup.cli.group_records import HELP as RECORDS_HELP
from sharegroup.cli.group_records import records
from sharegroup.cli.offset_reset import reset_offsets
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.redrive import EPILOG as REDRIVE_EXAMPLES
from sharegroup.cli.redrive import HELP as REDRIVE_HELP
from sharegroup.cli.redrive import redrive
from sharegroup.cli.settings import own_settings, parse_settings
from sharegroup.cli.tables import print_json, print_line, print_rows, print_table
from sharegroup.client.admin.admin import Admin
from sharegroup.model.errors import KafkaError, UnknownTopicOrPartition

groups = verbs("Show, reset, configure and delete share groups and consumer groups.")

EXAMPLES: Final = """\
Examples:

\b
sharegroup groups describe workers --offsets --watch
sharegroup groups describe --all-groups --state
sharegroup groups records workers --state acquired
sharegroup groups set workers share.auto.offset.reset=earliest
sharegroup groups delete workers --yes
sharegroup groups list --type consumer
sharegroup groups describe billing --offsets
"""
RESET_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups reset-offsets workers --topic jobs --to-earliest --dry-run --export plan.csv
sharegroup groups reset-offsets --from-file plan.csv --execute
sharegroup groups reset-offsets workers --all-topics --by-duration PT1H --execute
sharegroup groups reset-offsets billing --type consumer --topic orders:0 --shift-by -10 --execute
"""
DECISION_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups records billing --state blocked
sharegroup groups release billing orders 0 17
sharegroup groups archive billing orders 0 17
"""
RECORDS_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups records workers --state acquired
sharegroup groups records workers --topic jobs -p 0 --offsets 17 --archive --reason "no customer"
sharegroup groups records workers --topic jobs --state delayed --release --yes
sharegroup groups records workers --state acquired --extend 10m
"""
PURGE_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups purge workers --older-than 2d
sharegroup groups purge workers --topic jobs --yes
"""
PAUSE_EXAMPLES: Final = """\
Examples:

\b
sharegroup groups pause billing --yes
sharegroup groups describe billing
sharegroup groups resume billing
"""
STATES: Final = (
    "Empty",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
)
"""The states of groups: share groups have the first three, consumer groups also some others."""


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(groups, name="groups")


@groups.command("list")
def list_groups(
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE,…", help="Only groups in state Empty, Stable, …"),
    ] = None,
    kind: KindOption = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List groups: share groups, and consumer groups of both protocols (consumer, classic)."""

    async def command() -> None:
        wanted = parse_states(states or [])
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            types = () if kind is None else TYPES[kind]
            rows = [
                {"group": group.group_id, "type": group.type.lower(), "state": group.state}
                for group in await admin.list_groups(*types, states=wanted)
            ]
        print_rows(rows, ("group", "type", "state"), as_json=as_json)

    run(command())


groups.command("describe", epilog=EXAMPLES)(describe)
groups.command("pause", epilog=PAUSE_EXAMPLES)(pause)
groups.command("resume", epilog=PAUSE_EXAMPLES)(resume)
groups.command("records", help=RECORDS_HELP, epilog=RECORDS_EXAMPLES)(records)
groups.command("purge", epilog=PURGE_EXAMPLES)(purge)
groups.command("fork", epilog=FORK_EXAMPLES)(fork)
groups.command("release", epilog=DECISION_EXAMPLES)(release)
groups.command("archive", epilog=DECISION_EXAMPLES)(archive)
groups.command("redrive", help=REDRIVE_HELP, epilog=REDRIVE_EXAMPLES)(redrive)
groups.command("reset-offsets", epilog=RESET_EXAMPLES)(reset_offsets)


@groups.command("delete-offsets")
def delete_offsets(
    group: Group,
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", metavar="TOPIC", help="Repeatable.", autocompletion=complete_topics
        ),
    ],
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Delete the offsets of topics in a group. It then begins in these topics as a new group does.

    A share group must have no members, a consumer group none that read these topics.
    """

    async def command() -> ExitCode:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            try:
                outcome = await _deleted_offsets(admin, group, list(dict.fromkeys(topics)))
            except KafkaError as error:
                complain(await why_refused(admin, group, error))
                return exit_code(error)
        return _report(outcome, f"forgotten by {group}", "forgotten", as_json=as_json)

    run(command())


@groups.command("set", epilog=EXAMPLES)
def set_settings(
    group: Group,
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE…", help="Settings; KEY= resets one to its default."),
    ],
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Change settings of a group. The group need not exist yet.

    For example share.auto.offset.reset=earliest or share.record.lock.duration.ms=60000.
    """

    async def command() -> None:
        wanted = {key: value or None for key, value in parse_settings(pairs).items()}
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.alter_configs("group", group, wanted)
            own = own_settings(await admin.describe_configs("group", group))
        if as_json:
            print_json({"group": group, "configs": own})
        else:
            print_table(("setting", "value"), own.items())

    run(command())


@groups.command(epilog=EXAMPLES)
def delete(
    names: Groups = None,
    every: AllGroups = False,
    kind: KindOption = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Delete groups without members, and what they remember: their delivery state or their
    committed offsets. Asks first, unless --yes is given.
    """

    async def command() -> ExitCode:
        check_choice(names, every=every)
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            wanted = await chosen_groups(admin, names, every=every, kind=kind)
            if kind is not None:
                kinds = await kinds_of(admin, kind)
                for group in wanted:
                    kinds.is_share(group)  # refuses a group of the other kind
            outcome = await admin.delete_share_groups(*wanted)
            said = {
                group: await why_refused(admin, group, error)
                for group, error in outcome.items()
                if error is not None
            }
        return _report(outcome, "deleted", "deleted", as_json=as_json, said=said)

    if every != bool(names):  # otherwise check_choice refuses it
        everything = f"all {kind or GroupKind.SHARE} groups"
        confirm(f"delete {everything if every else ', '.join(names or ())}", yes=yes)
    run(command())


def parse_states(texts: list[str]) -> list[str]:
    """The states of ``["empty,Stable", …]`` in Kafka's spelling.

    Raises:
        UsageError: there is no such state of a group.
    """
    known = {state.lower(): state for state in STATES}
    states = [state.strip() for text in texts for state in text.split(",")]
    for state in states:
        if state.lower() not in known:
            raise UsageError(f"--state {state}: the states of groups are {', '.join(STATES)}")
    return [known[state.lower()] for state in states]


async def _deleted_offsets(
    admin: Admin, group: str, topics: Sequence[str]
) -> dict[str, KafkaError | None]:
    """Delete a group's offsets of these topics; each topic with its error."""
    if (await kinds_of(admin)).is_share(group):
        return await admin.delete_share_group_offsets(group, *topics)
    wheres = [w for w in await admin.list_consumer_group_offsets(group) if w.topic in topics]
    nothing = UnknownTopicOrPartition("the group has committed nothing there")
    found: dict[str, KafkaError | None] = dict.fromkeys(topics, nothing)
    found.update(dict.fromkeys(where.topic for where in wheres))
    if wheres:
        deleted = await admin.delete_consumer_group_offsets(group, *wheres)
        found.update({w.topic: error for w, error in deleted.items() if error is not None})
    return found


def _report(
    outcome: Mapping[str, KafkaError | None],
    sentence: str,
    key: str,
    *,
    as_json: bool,
    said: Mapping[str, str] | None = None,
) -> ExitCode:
    """Print the outcome of each name; returns the exit status of the worst one."""
    done = [name for name, error in outcome.items() if error is None]
    refused = {name: error for name, error in outcome.items() if error is not None}
    if as_json:
        errors = {name: error.name for name, error in refused.items()}
        print_json({key: done, "refused": errors})
    elif done:
        print_line(f"{', '.join(done)} {sentence}")
    for name, error in refused.items():
        complain((said or {}).get(name) or f"{error.name}: {name}: {error.message}")
    return max(map(exit_code, refused.values()), default=ExitCode.DONE)
