"""Which groups are share groups, and which are consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

from sharegroup.cli.outcome import UsageError
from sharegroup.client.admin.admin import Admin


class Kind(StrEnum):
    """What a user calls the type of a group. A consumer group may have either protocol."""

    SHARE = "share"
    CONSUMER = "consumer"


TYPES: Final = {Kind.SHARE: ("share",), Kind.CONSUMER: ("consumer", "classic")}
"""Kind → the types that ListGroups has for it."""

KindOption = Annotated[
    Kind | None,
    typer.Option("--type", help="Share groups, or consumer groups of both protocols."),
]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of all groups. A group that does not exist is of the ``wanted`` kind; if no kind is
    wanted, it is a share group.
    """

    known: Mapping[str, Kind]
    wanted: Kind | None

    def is_share(self, group: str) -> bool:
        """Whether the group is a share group, or will be one.

        Raises:
            UsageError: the group is not of the wanted kind.
        """
        kind = self.known.get(group, self.wanted or Kind.SHARE)
        if self.wanted not in (None, kind):
            raise UsageError(f"group {group} is a {kind} group, not a {self.wanted} group")
        return kind is Kind.SHARE


async def kinds_of(admin: Admin, wanted: Kind | None = None) -> Kinds:
    """Ask for the kinds of all groups."""
    known = {
        group.group_id: Kind.SHARE if group.type.lower() == Kind.SHARE else Kind.CONSUMER
        for group in await admin.list_groups()
    }
    return Kinds(known, wanted)
