"""``sharegroup groups describe``: the state, members, offsets and settings of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.consumer_group_views import (
    key_space_text,
    member_row,
    offset_rows,
    ranges_text,
    state_of,
)
from sharegroup.cli.group_choice import AllGroups, Groups, check_choice, chosen_groups
from sharegroup.cli.group_kinds import GroupKind, KindOption, Kinds, kinds_of
from sharegroup.cli.offset_plan import partitions_text
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    finite,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, run
from sharegroup.cli.settings import settings_if_shown
from sharegroup.cli.tables import print_json, print_line, print_rows, print_table
from sharegroup.cli.watching import watch
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import (
    MemberDescription,
    ShareGroupDescription,
    ShareGroupOffset,
)
from sharegroup.client.admin.hand_requests import PAUSED
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class View(StrEnum):
    """Which part of a group is shown."""

    ALL = "all"
    STATE = "state"
    MEMBERS = "members"
    OFFSETS = "offsets"


COLUMNS: Final = {
    View.STATE: ("group", "type", "coordinator", "state", "member_count"),
    View.MEMBERS: ("group", "member", "client", "host", "assigned"),
    View.OFFSETS: ("group", "topic", "partition", "start_offset", "in_flight", "lag"),
}
CONSUMER_OFFSETS: Final = ("group", "topic", "partition", "committed", "end", "lag", "member")
SELDOM: Final = ("paused", "damaged")
VERBOSE_COLUMNS: Final = {
    View.STATE: ("epoch", "assignment_epoch", "assignor"),
    View.MEMBERS: ("epoch", "rack", "subscribed"),
    View.OFFSETS: ("leader_epoch",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions:
    """The user's options."""

    groups: Sequence[str]
    every: bool
    kind: GroupKind | None
    view: View
    verbose: bool
    as_json: bool

    def show(self, outcomes: Sequence[dict[str, Any] | KafkaError]) -> ExitCode:
        """Print the descriptions, and on stderr the errors."""
        found = [one for one in outcomes if not isinstance(one, KafkaError)]
        refused = [one for one in outcomes if isinstance(one, KafkaError)]
        if self.as_json and (found or not refused):
            print_json(found[0] if len(outcomes) == 1 and not self.every else found)
        elif not self.as_json:
            _show(found, self.view, verbose=self.verbose)
        for error in refused:
            complain(error)
        return max(map(exit_code, refused), default=ExitCode.DONE)


@dataclass(frozen=True, slots=True)
class Asking:
    """The requests of one description."""

    admin: Admin
    view: View
    addresses: dict[int, str]
    kinds: Kinds


def describe(
    groups: Groups = None,
    every: AllGroups = False,
    kind: KindOption = None,
    state: Annotated[
        bool, typer.Option("--state", help="Only the state, one line per group.")
    ] = False,
    members: Annotated[bool, typer.Option("--members", help="Only the members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only the offsets.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="More columns: epochs, racks, assignor.")
    ] = False,
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval",
            min=0.1,
            callback=finite,
            help="With --watch: seconds between refreshes.",
        ),
    ] = 2.0,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Show groups: members, settings, and the progress in each partition.

    Share groups. Start offset: all records before it are finished. In flight: records that members
    hold now (not available from Apache Kafka). Lag: records that are not finished. Damaged, if
    there are any: records that the log has lost on disk (`groups records` lists them). Paused: no
    records are delivered until `groups resume`.

    Consumer groups. Committed: the offset of the next record. End: that of the next record to be
    written. Lag: what is between the two. Member: who reads the partition now.

    With --json, one group is an object, several are a list; with --watch, a sequence of documents.
    Ctrl-C ends --watch with exit status 0.
    """

    async def command() -> ExitCode:
        check_choice(groups, every=every)
        look = DescribeOptions(
            groups=groups or (),
            every=every,
            kind=kind,
            view=_view(state=state, members=members, offsets=offsets),
            verbose=verbose,
            as_json=as_json,
        )
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            if watching:
                return await watch(lambda: _asked(admin, look), look.show, interval_s)
            return look.show(await _asked(admin, look))

    run(command())


async def _asked(admin: Admin, look: DescribeOptions) -> list[dict[str, Any] | KafkaError]:
    """The description of each group, or its error."""
    kinds = await kinds_of(admin, look.kind)
    wanted = await chosen_groups(admin, look.groups, every=look.every, kind=look.kind)
    nodes = (await admin.describe_cluster()).nodes
    addresses = {node.node_id: str(node.address) for node in nodes}
    asking = Asking(admin, look.view, addresses, kinds)
    return list(await asyncio.gather(*(_found(asking, group) for group in wanted)))


def _view(*, state: bool, members: bool, offsets: bool) -> View:
    chosen = {View.STATE: state, View.MEMBERS: members, View.OFFSETS: offsets}
    views = [view for view, wanted in chosen.items() if wanted]
    if len(views) > 1:
        raise UsageError("take one of --state, --members and --offsets")
    return views[0] if views else View.ALL


async def _found(asking: Asking, group: str) -> dict[str, Any] | KafkaError:
    try:
        if not asking.kinds.is_share(group):
            return await _consumer_group(asking, group)
        return await _looked_up(asking, group)
    except KafkaError as error:
        return error


async def _looked_up(asking: Asking, group: str) -> dict[str, Any]:
    admin, view = asking.admin, asking.view
    description = (await admin.describe_share_groups([group]))[group]
    found = _state(description, asking.addresses.get(description.coordinator, "-"))
    if view in (View.ALL, View.MEMBERS):
        found["members"] = [_member(member) for member in description.members]
    if view in (View.ALL, View.OFFSETS):
        offsets = await admin.list_share_group_offsets(group)
        found["partitions"] = [_partition(where, one) for where, one in offsets.items()]
    if view in (View.ALL, View.STATE):
        quiet = view is View.STATE
        configs = await settings_if_shown(admin, "group", group, quiet=quiet)
        found["paused"] = None if configs is None else configs.get(PAUSED) == "true"
        if view is View.ALL:
            found["configs"] = configs
    return found


async def _consumer_group(asking: Asking, group: str) -> dict[str, Any]:
    admin, view = asking.admin, asking.view
    description = (await admin.describe_consumer_groups([group]))[group]
    found = state_of(description, asking.addresses.get(description.coordinator, "-"))
    if view in (View.ALL, View.MEMBERS):
        found["members"] = [member_row(member) for member in description.members]
    if view in (View.ALL, View.OFFSETS):
        found["partitions"] = await offset_rows(admin, description)
    if view is View.ALL:
        found["configs"] = await settings_if_shown(admin, "group", group)
    return found


def _state(group: ShareGroupDescription, address: str) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": "share",
        "state": group.state,
        "coordinator": f"{address} (id {group.coordinator})",
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "member_count": len(group.members),
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
        "leader_epoch": offset.leader_epoch,
        "start_offset": offset.start_offset,
        "in_flight": offset.in_flight,
        "lag": offset.lag,
        "damaged": sum(each.size for each in offset.damaged),
        "error": None if offset.error is None else offset.error.name,
    }


# --- tables ---------------------------------------------------------------------------------------


def _show(groups: list[dict[str, Any]], view: View, *, verbose: bool) -> None:
    if view is View.ALL:
        for at, group in enumerate(groups):
            if at:
                print()
            _show_all(group, verbose=verbose)
    elif groups:
        rows = [row for group in groups for row in _rows(group, view)]
        ours = [row for row in rows if "committed" not in row]
        theirs = [row for row in rows if "committed" in row]
        if ours or not theirs:
            print_rows(ours, _columns(view, ours, verbose=verbose))
        if theirs:
            print_rows(theirs, _columns(view, theirs, verbose=verbose))


def _columns(view: View, rows: list[dict[str, Any]], *, verbose: bool) -> tuple[str, ...]:
    """The columns of a view; of :data:`SELDOM` only those in which a row has something to show."""
    if any("committed" in row for row in rows):
        ranges = ("committed_behind",) if any(row["committed_behind"] for row in rows) else ()
        return CONSUMER_OFFSETS + ranges + (("leader_epoch", "metadata") if verbose else ())
    if any(row.get("key_space") for row in rows):
        return (*COLUMNS[view], "key_space", *(VERBOSE_COLUMNS[view] if verbose else ()))
    seldom = tuple(name for name in SELDOM if any(row.get(name) for row in rows))
    return COLUMNS[view] + seldom + (VERBOSE_COLUMNS[view] if verbose else ())


def _rows(group: dict[str, Any], view: View) -> list[dict[str, Any]]:
    name = {"group": group["group"]}
    if view is View.STATE:
        return [group]
    if view is View.OFFSETS:
        return [
            name | row | {"committed_behind": ranges_text(row.get("ranges", ()))}
            for row in group["partitions"]
        ]
    return [
        name
        | member
        | {
            "assigned": partitions_text(
                TopicPartition(one["topic"], one["partition"]) for one in member["assignment"]
            ),
            "key_space": key_space_text(member),
            "subscribed": ",".join(member["topics"]),
        }
        for member in group["members"]
    ]


def _show_all(group: dict[str, Any], *, verbose: bool) -> None:
    kind = "" if group["type"] == "share" else f"{group['type']} "
    epoch = "" if group["epoch"] is None else f", epoch {group['epoch']}"
    paused = ", paused" if group.get("paused") else ""
    print_line(f"{kind}group {group['group']}, {group['state'].lower()}{paused}{epoch}")
    if verbose:
        print_line(f"coordinator {group['coordinator']}, assignor {group['assignor']}")
    for view in (View.MEMBERS, View.OFFSETS):
        rows = _rows(group, view)
        if rows:
            print_rows(rows, _columns(view, rows, verbose=verbose)[1:])
    if group["configs"]:
        print_table(("setting", "value"), group["configs"].items())
