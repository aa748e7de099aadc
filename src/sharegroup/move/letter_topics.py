"""Which topics are copied before which: dead letters name offsets in the copies of other topics.
These may have letters, too, or may have been moved by an earlier call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sharegroup.client.core.done_letters import DONE_TOPIC
from sharegroup.model.ids import TopicPartition
from sharegroup.move.committed_log import CommittedLog
from sharegroup.move.letters import named_by
from sharegroup.move.partition_copy import LEFT_OUT, bounds_of
from sharegroup.move.side import MoveRefused, Side, Sides
from sharegroup.move.side_by_side import side_by_side
from sharegroup.move.topics import MovedTopic, moved_topics


@dataclass(frozen=True, slots=True)
class Stages:
    """Topics in the order in which they are copied; letters come after what they name.

    Attributes:
        stages: the topics that are moved, and ``compared``.
        compared: topics that are not moved now, but named by letters that are.
    """

    stages: Sequence[Sequence[MovedTopic]]
    compared: frozenset[str] = frozenset()


async def stages_of(sides: Sides, topics: Sequence[MovedTopic]) -> Stages:
    """Put the topics in order. All their letters are read.

    Raises:
        MoveRefused: letters name a topic that is to be moved as well.
    """
    here = {one.name for one in await sides.source.admin.list_topics()} - {DONE_TOPIC}
    known = {one.name: one for one in topics}
    names: dict[str, set[str]] = {}
    new = [*topics]
    while new:
        letters = [one for one in new if one.has_letters]
        found = await side_by_side(partial(_names_in, sides.source, one) for one in letters)
        names |= {one.name: some & here for one, some in zip(letters, found, strict=True)}
        others = {name for some in found for name in some & here} - known.keys()
        new = await moved_topics(sides, sorted(others), LEFT_OUT) if others else []
        for one in new:
            if not one.exists:
                raise MoveRefused(
                    f"dead letters are about records of {one.name}, which {sides.target.servers} "
                    f"has not: name it as well (--topic {one.name})"
                )
        known |= {one.name: one for one in new}
    compared = frozenset(known.keys() - {one.name for one in topics})
    return Stages(in_order(known.values(), names), compared)


async def _names_in(source: Side, topic: MovedTopic) -> set[str]:
    """The topics that its letters name."""
    found: set[str] = set()
    for index in range(topic.partitions):
        where = TopicPartition(topic.name, index)
        async for batches in CommittedLog(source.cluster, where).batches(
            *await bounds_of(source, where)
        ):
            named = (named_by(record) for batch in batches for record in batch.records())
            found |= {one[0].topic for one in named if one is not None}
    return found


def in_order(topics: Iterable[MovedTopic], names: Mapping[str, set[str]]) -> list[list[MovedTopic]]:
    """Topics whose letters name others come after these.

    Raises:
        MoveRefused: some name each other, or themselves.
    """
    left = {one.name: one for one in topics}
    stages = []
    while left:
        now = [one for one in left.values() if not names.get(one.name, set()) & left.keys()]
        if not now:
            raise MoveRefused(
                f"dead letters in {', '.join(left)} are about each other: leave these topics out"
            )
        stages.append(now)
        left = {name: one for name, one in left.items() if one not in now}
    return stages
