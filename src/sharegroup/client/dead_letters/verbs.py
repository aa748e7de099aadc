"""The verbs of ``Admin`` about dead letters."""

from __future__ import annotations

from contextlib import aclosing

from sharegroup.client.core.dead_letter import DeadLetter, LettersHandled
from sharegroup.client.core.letter_expression import LetterExpression
from sharegroup.client.dead_letters.handling import Handling, handle
from sharegroup.client.dead_letters.queue import dead_letter_queue
from sharegroup.client.network.cluster import Cluster


async def list_letters(
    cluster: Cluster, group: str, topic: str | None, where: str | None, letters_max: int
) -> list[DeadLetter]:
    """As ``Admin.list_dead_letters``."""
    wanted = expression(where)
    found: list[DeadLetter] = []
    async with (
        dead_letter_queue(cluster, group, topic) as queue,
        aclosing(queue.letters(wanted)) as steps,
    ):
        async for some in steps:
            found += [one.letter for one in some if one.letter is not None]
            if len(found) >= letters_max:
                break
    return found[:letters_max]


async def handle_letters(
    cluster: Cluster, group: str, topic: str | None, wanted: Handling
) -> LettersHandled:
    """As ``Admin.redrive_dead_letters`` and ``Admin.purge_dead_letters``."""
    async with dead_letter_queue(cluster, group, topic) as queue:
        return await handle(queue, wanted)


def expression(text: str | None) -> LetterExpression | None:
    """The expression of an option; None: all letters are wanted."""
    return None if text is None else LetterExpression(text)
