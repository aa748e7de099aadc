"""Which dead letters are done, at the target: nobody redrives there again what was redriven at the
source. The topic of these marks is not copied, for it names other topics' ids and offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from sharegroup.client.core.done_letters import DONE_TOPIC, DoneLetters, DoneOf, Mark
from sharegroup.client.dead_letters.done_topic import create_done_topic, load_done
from sharegroup.client.producer.producer import Producer
from sharegroup.model.ids import TopicPartition
from sharegroup.move.committed_log import CommittedLog
from sharegroup.move.side import Places, Side, Sides


async def move_done_letters(sides: Sides, places: Places) -> None:
    """Mark the letters at the target that are marked at the source, in the topics that are moved.
    What is marked at the target stays so.

    Raises:
        KafkaError: not all are marked; a second call goes on.
    """
    marks = await _marks(sides.source)
    topics = {where.topic for where in places}
    ids = {one: await _id(sides.source, one) for one in topics} if marks else {}
    wanted: list[Mark] = []
    for name in sorted({one for mark in marks if (one := _name(mark)) is not None}):
        if ids.get(name.topic) == name.topic_id:
            wanted += await _translated(sides, name, marks, places)
    if not wanted:
        return
    await create_done_topic(sides.target.admin)
    async with Producer(cluster=sides.target.cluster) as producer:
        for key, value in wanted:
            await producer.send(DONE_TOPIC, value, key=key)


async def _marks(source: Side) -> list[Mark]:
    """All marks, in the order of the log."""
    topics = {one.name: one.partition_count for one in await source.admin.list_topics()}
    found: list[Mark] = []
    for index in range(topics.get(DONE_TOPIC, 0)):
        log = CommittedLog(source.cluster, TopicPartition(DONE_TOPIC, index))
        start, committed, _ = await log.bounds()
        async for batches in log.batches(start, committed):
            found += [(one[2] or b"", one[3]) for each in batches for one in each.records()]
    return found


def _name(mark: Mark) -> DoneOf | None:
    """Whose letters a mark is about; None: it is none of ours."""
    try:
        said: Mapping[str, str] = json.loads(mark[0])
        return DoneOf(said["group"], said["topic"], UUID(said["id"]))
    except (ValueError, TypeError, KeyError):
        return None


async def _id(side: Side, topic: str) -> UUID:
    return (await side.cluster.topic(topic)).topic_id


async def _translated(sides: Sides, name: DoneOf, marks: list[Mark], places: Places) -> list[Mark]:
    here, there = (
        DoneLetters(name),
        DoneLetters(name._replace(topic_id=await _id(sides.target, name.topic))),
    )
    for mark in marks:
        if _name(mark) == name:
            here.load(mark)
    await load_done(sides.target.admin, sides.target.cluster, there)
    found: list[Mark] = []
    for where, copy in places.items():
        if where.topic == name.topic:
            spans = [copy.span(first, last) for first, last in here.ranges(where.partition)]
            found += there.mark(where.partition, [one for one in spans if one is not None])
    return found
