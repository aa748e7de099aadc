"""Which groups a command is about, and what to say of one that still has members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from sharegroup.cli.completion import complete_groups
from sharegroup.cli.outcome import UsageError, explain
from sharegroup.cli.tables import count
from sharegroup.client.admin import Admin
from sharegroup.client.descriptions import ShareGroupDescription
from sharegroup.model.errors import GroupIdNotFound, KafkaError, NonEmptyGroup

Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GROUP]…", help="Names of share groups.", autocompletion=complete_groups
    ),
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All share groups there are.")]

MEMBERS_NAMED_MAX: Final = 5


def check_choice(groups: Sequence[str] | None, *, every: bool) -> None:
    """Either names, or all.

    Raises:
        UsageError: both, or neither.
    """
    if every and groups:
        raise UsageError("name groups, or take --all-groups, not both")
    if not every and not groups:
        raise UsageError("name a group, or take --all-groups")


async def chosen_groups(admin: Admin, groups: Sequence[str] | None, *, every: bool) -> list[str]:
    """The groups named, each once, or with ``every`` all that there are."""
    if every:
        return [group.group_id for group in await admin.list_groups("share")]
    return list(dict.fromkeys(groups or ()))


async def described(admin: Admin, group: str) -> ShareGroupDescription | None:
    """The group, None where there is none."""
    try:
        return (await admin.describe_share_groups([group]))[group]
    except GroupIdNotFound:
        return None


async def why_refused(admin: Admin, group: str, error: KafkaError) -> str:
    """A sentence on a group that something was refused to; of one at work it names the members."""
    if isinstance(error, NonEmptyGroup):
        found = await described(admin, group)
        if found is not None and found.members:
            return f"{error.name}: {members_to_stop(found)}"
    return f"{error.name}: group {group}: {explain(error).removeprefix(error.name + ': ')}"


def members_to_stop(group: ShareGroupDescription) -> str:
    """Who holds the group, and what to do about it."""
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
