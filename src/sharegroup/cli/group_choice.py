"""Which groups a command applies to, and the message for a group that still has members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from sharegroup.cli.completion import complete_all_groups
from sharegroup.cli.group_kinds import TYPES, GroupKind
from sharegroup.cli.outcome import UsageError, explain
from sharegroup.cli.tables import count
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import ConsumerGroupDescription, ShareGroupDescription
from sharegroup.model.errors import GroupIdNotFound, KafkaError, NonEmptyGroup

Groups = Annotated[
    list[str] | None,
    typer.Argument(metavar="[GROUP]…", help="Names of groups.", autocompletion=complete_all_groups),
]
AllGroups = Annotated[
    bool,
    typer.Option("--all-groups", help="All share groups; with --type, all groups of that kind."),
]
AnyGroupDescription = ShareGroupDescription | ConsumerGroupDescription

MEMBERS_NAMED_MAX: Final = 5


def check_choice(groups: Sequence[str] | None, *, every: bool) -> None:
    """Check that either names or ``every`` are given.

    Raises:
        UsageError: both are given, or neither.
    """
    if every and groups:
        raise UsageError("name groups, or take --all-groups, not both")
    if not every and not groups:
        raise UsageError("name a group, or take --all-groups")


async def chosen_groups(
    admin: Admin, groups: Sequence[str] | None, *, every: bool, kind: GroupKind | None = None
) -> list[str]:
    """The named groups, each once; with ``every``, all groups of ``kind`` (None: share groups)."""
    if every:
        types = TYPES[kind or GroupKind.SHARE]
        return [group.group_id for group in await admin.list_groups(*types)]
    return list(dict.fromkeys(groups or ()))


async def described(admin: Admin, group: str) -> AnyGroupDescription | None:
    """The description of the group; None if it does not exist."""
    try:
        return (await admin.describe_share_groups([group]))[group]
    except GroupIdNotFound:
        pass  # it may be a consumer group
    try:
        return (await admin.describe_consumer_groups([group]))[group]
    except GroupIdNotFound:
        return None


async def why_refused(admin: Admin, group: str, error: KafkaError) -> str:
    """A sentence about a refused operation on a group; if the group has members, it names them."""
    if isinstance(error, NonEmptyGroup):
        found = await described(admin, group)
        if found is not None and found.members:
            return f"{error.name}: {members_to_stop(found)}"
    return f"{error.name}: group {group}: {explain(error).removeprefix(error.name + ': ')}"


def members_to_stop(group: AnyGroupDescription) -> str:
    """The message that names a group's members and asks to stop them."""
    named = [
        f"{member.client_id} at {member.client_host} (member {member.member_id})"
        for member in group.members[:MEMBERS_NAMED_MAX]
    ]
    more = len(group.members) - len(named)
    if more:
        named.append(f"and {more} more")
    return (
        f"group {group.group_id} has {count(len(group.members), 'member')}: {', '.join(named)}. "
        "Stop them and run this again"
    )
