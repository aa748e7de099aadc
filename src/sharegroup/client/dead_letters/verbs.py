"""The verbs of ``Admin`` about dead letters."""

from __future__ import annotations

from contextlib import aclosing

from sharegroup.client.core.dead_letter import DeadLetter, LettersHandled
from sharegroup.client.core.letter_expression import LetterExpression
from sharegroup.client.dead_letters.handling import Handling, Told, handle
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


async def redrive_letters(
    cluster: Cluster,
    group: str,
    topic: str | None,
    to: str | None,
    where: str | None,
    rate: float | None,
    letters_max: int | None,
    told: Told | None,
    dry_run: bool,
) -> LettersHandled:
    """As ``Admin.redrive_dead_letters``."""
    wanted = Handling(
        redrive=True,
        to=to,
        where=expression(where),
        rate=rate,
        letters_max=letters_max,
        dry_run=dry_run,
        told=told,
    )
    async with dead_letter_queue(cluster, group, topic) as queue:
        return await handle(queue, wanted)


async def purge_letters(
    cluster: Cluster,
    group: str,
    topic: str | None,
    where: str | None,
    told: Told | None,
    dry_run: bool,
) -> LettersHandled:
    """As ``Admin.purge_dead_letters``."""
    wanted = Handling(redrive=False, where=expression(where), dry_run=dry_run, told=told)
    async with dead_letter_queue(cluster, group, topic) as queue:
        return await handle(queue, wanted)


def expression(text: str | None) -> LetterExpression | None:
    """The expression of an option; None: all letters are wanted."""
    return None if text is None else LetterExpression(text)
