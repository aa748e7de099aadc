"""Which groups are share groups, and which are consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

from sharegroup.cli.outcome import UsageError
from sharegroup.client.admin.admin import Admin


class GroupKind(StrEnum):
    """What a user calls the type of a group. A consumer group may have either protocol."""

    SHARE = "share"
    CONSUMER = "consumer"


TYPES: Final = {GroupKind.SHARE: ("share",), GroupKind.CONSUMER: ("consumer", "classic")}
"""Kind → the types that ListGroups has for it."""

KindOption = Annotated[
    GroupKind | None,
    typer.Option("--type", help="Share groups, or consumer groups of both protocols."),
]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of all groups. A group that does not exist is of the ``wanted`` kind; if no kind is
    wanted, it is a share group.
    """

    known: Mapping[str, GroupKind]
    wanted: GroupKind | None

    def is_share(self, group: str) -> bool:
        """Whether the group is a share group, or will be one.

        Raises:
            UsageError: the group is not of the wanted kind.
        """
        kind = self.known.get(group, self.wanted or GroupKind.SHARE)
        if self.wanted not in (None, kind):
            raise UsageError(f"group {group} is a {kind} group, not a {self.wanted} group")
        return kind is GroupKind.SHARE


async def kinds_of(admin: Admin, wanted: GroupKind | None = None) -> Kinds:
    """Ask for the kinds of all groups."""
    known = {
        group.group_id: GroupKind.SHARE
        if group.type.lower() == GroupKind.SHARE
        else GroupKind.CONSUMER
        for group in await admin.list_groups()
    }
    return Kinds(known, wanted)
