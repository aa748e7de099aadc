"""Names of topics and groups for the shell's Tab key; no names if the broker is slow to answer.

Any client may name a group, and shells put the names that they are given into the command line
without quotes; typer's script for zsh hands them to ``eval`` first. So names with characters that
mean something to a shell or to a terminal are left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from sharegroup.cli.options import broker_before
from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import SharegroupError

PATIENCE_S: Final = 1.0
"""Longest time, in seconds, that a user waits after pressing Tab."""
_PLAIN: Final = frozenset("._-:@/+,=%")
"""Characters beside letters and digits that no shell interprets inside a word."""


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """The topics that begin with ``incomplete``."""

    async def names(admin: Admin) -> list[str]:
        return [topic.name for topic in await admin.list_topics()]

    return _completed(context, incomplete, names)


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The share groups that begin with ``incomplete``."""
    return _completed(context, incomplete, lambda admin: _groups(admin, "share"))


def complete_all_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The groups of any type that begin with ``incomplete``."""
    return _completed(context, incomplete, _groups)


async def _groups(admin: Admin, *types: str) -> list[str]:
    return [group.group_id for group in await admin.list_groups(*types)]


def _completed(
    context: typer.Context, incomplete: str, names: Callable[[Admin], Awaitable[list[str]]]
) -> list[str]:
    async def asked() -> list[str]:
        broker = broker_before(context)
        cluster = Cluster(broker.servers, allow_auto_create_topics=False, **broker.arguments)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await names(Admin(cluster=cluster))
        finally:
            await cluster.close()

    logging.disable()  # a log line would garble the line that the user is typing
    try:
        known = asyncio.run(asked())
    except (SharegroupError, OSError, TimeoutError):
        return []
    return sorted(name for name in known if name.startswith(incomplete) and is_plain(name))


def is_plain(name: str) -> bool:
    """Whether a shell takes the name, as it is, for one word, and not for an option."""
    if not name[:1].isalnum() and name[:1] not in "._/":
        return False
    return all(letter.isalnum() or letter in _PLAIN for letter in name)


Topic = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
Group = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="Name of the group.", autocompletion=complete_all_groups),
]
OnlyTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Only this topic. Repeatable.",
        autocompletion=complete_topics,
    ),
]
