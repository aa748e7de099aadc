"""What happens to a topic under those who use it: records are deleted or expire, or all of it
goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.model.errors import SharegroupError, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.sim.recorder import Recorder
from sharegroup.sim.topic import TOPIC, JobsTopic

TRIES: Final = 3
"""So often records are deleted: a log that is out of service comes back after the last fault."""


async def until_done(act: Callable[[], Awaitable[object]], tries: float = inf) -> bool:
    """Do it again and again, each second, until the broker has confirmed it. Returns whether it
    has."""
    while tries > 0:
        try:
            await act()
        except SharegroupError:
            tries -= 1
            await asyncio.sleep(1)
        else:
            return True
    return False


async def trim(
    admin: Admin, history: Recorder, topic: JobsTopic, partitions: int, part: float
) -> None:
    """Delete the first records of each partition.

    Args:
        part: of each log.
    """
    before: dict[TopicPartition, int] = {}

    async def look() -> None:
        places = [TopicPartition(TOPIC, number) for number in range(partitions)]
        ends = await admin.list_offsets(places, OffsetSpec.LATEST)
        cuts = {at: int(end.offset * part) for at, end in ends.items()}
        before.update({at: cut for at, cut in cuts.items() if cut})

    async with topic.writing():  # until they are gone, it is this topic
        if await until_done(look, TRIES):
            _tell_gone(history, topic, before, done=False)
            if await until_done(lambda: admin.delete_records(before), TRIES):
                _tell_gone(history, topic, before, done=True)


async def expire(
    admin: Admin, history: Recorder, topic: JobsTopic, partitions: int, seconds: float
) -> None:
    """For so long no record may be older than a millisecond (``retention.ms``). Nobody writes
    meanwhile, so that it is known which records may go."""
    places = [TopicPartition(TOPIC, number) for number in range(partitions)]
    before: dict[TopicPartition, int] = {}

    async def look(what: OffsetSpec) -> None:
        found = await admin.list_offsets(places, what)
        before.clear()
        before.update({at: one.offset for at, one in found.items() if one.offset})

    async def keep(milliseconds: int) -> None:
        settings = {"retention.ms": str(milliseconds)}
        await until_done(lambda: admin.alter_configs("topic", TOPIC, settings))

    async with topic.closed():
        if await until_done(lambda: look(OffsetSpec.LATEST), TRIES):
            _tell_gone(history, topic, before, done=False)
            await keep(1)
            await asyncio.sleep(seconds)
            await keep(-1)
            if await until_done(lambda: look(OffsetSpec.EARLIEST), TRIES):
                _tell_gone(history, topic, before, done=True)


def _tell_gone(
    history: Recorder, topic: JobsTopic, before: dict[TopicPartition, int], *, done: bool
) -> None:
    for at, end in before.items():  # 0: the topic goes
        where = {"topic": topic.name, "partition": at.partition}
        history.tell("gone", **where, first=0, last=end - 1, done=done)


async def make_anew(
    admin: Admin,
    history: Recorder,
    topic: JobsTopic,
    partitions: int,
    create: Callable[[], Awaitable[None]],
    pause_s: float,
    noticed_s: float,
) -> None:
    """Delete the topic, and make another one of its name after ``pause_s``. All brokers know
    ``noticed_s`` later that it is gone.
    """
    everything = {TopicPartition(TOPIC, number): 0 for number in range(partitions)}

    async def delete() -> None:
        with suppress(UnknownTopicOrPartition):
            await admin.delete_topics(TOPIC)

    async def deleted() -> None:
        _tell_gone(history, topic, everything, done=False)
        await until_done(delete)
        await asyncio.sleep(noticed_s)
        _tell_gone(history, topic, everything, done=True)

    async def created() -> None:
        await asyncio.sleep(pause_s)
        await until_done(create)

    await topic.replace(deleted, created)
