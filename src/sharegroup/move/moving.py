"""A whole move, step by step. Nothing is changed before all is checked that can be, and each step
may be done again: what is interrupted goes on with the same call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.model.ids import TopicPartition
from sharegroup.move.committed_log import CommittedLog
from sharegroup.move.done_letters import move_done_letters
from sharegroup.move.groups import (
    MovedGroup,
    changed_at,
    check_empty,
    check_rights,
    left_at,
    missing,
    moved_groups,
    read,
    resume,
    translate,
    write,
)
from sharegroup.move.letter_topics import Stages, stages_of
from sharegroup.move.letters import of_copies
from sharegroup.move.offset_map import OffsetMap
from sharegroup.move.partition_copy import Bounds, PartitionCopy, Told, bounds_of
from sharegroup.move.side import MoveRefused, Side, Sides
from sharegroup.move.side_by_side import side_by_side
from sharegroup.move.topics import MovedTopic, finish, moved_topics, prepare


def _nobody(_number: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to move. No topics: all; no groups: all that have progress in the topics.

    Attributes:
        told: called with the number of records that were compared or copied since the last call.
        begun: called once with the number of offsets of all partitions at the source.
    """

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    dry_run: bool = False
    told: Told = _nobody
    begun: Told = _nobody


@dataclass(slots=True)
class Copied:
    """What became of a topic.

    Attributes:
        copied: records that this run has copied, or would copy.
        there: records that the target had already.
        moved: whether records have other offsets in the copy.
    """

    topic: MovedTopic
    copied: int = 0
    there: int = 0
    moved: bool = False


@dataclass(slots=True)
class Moved:
    """What became of a group.

    Attributes:
        before: how many records it had not finished at the source; None: it has begun nowhere.
        after: the same, as the target tells it; with a dry run, as it would be.
        changed: partitions where the target does not have the progress that it was to have.
    """

    group: MovedGroup
    before: int | None
    after: int | None
    changed: Sequence[TopicPartition] = ()

    @property
    def same(self) -> bool:
        """Whether nothing is missing and nothing comes again."""
        return self.before == self.after and not self.changed


@dataclass(slots=True)
class Outcome:
    """What was moved."""

    topics: list[Copied] = field(default_factory=list)
    groups: list[Moved] = field(default_factory=list)


async def move(sides: Sides, wanted: Wanted) -> Outcome:
    """Move topics and groups.

    Raises:
        MoveRefused: something cannot be moved as it is; the message says what to do.
        KafkaError: a broker cannot be asked, or refuses.
    """
    await _check_two(sides)
    topics = await moved_topics(sides, wanted.topics)
    counts = {one.name: one.partitions for one in topics}
    groups = await moved_groups(sides, wanted.groups, counts, idle=not wanted.topics)
    await check_rights(sides.target, groups)
    copies = await _copies(sides, await stages_of(sides, topics), wanted)
    wanted.begun(sum(one.source.end - one.source.start for one in copies.all))
    await copies.compare()
    await _check_used(sides, groups, topics, copies.all)
    if wanted.dry_run:
        await copies.each(lambda one: one.look())
        return _planned(topics, groups, copies.all)
    largest = {one.name: await prepare(sides.target, one) for one in topics}
    await copies.each(lambda one: one.copy(largest[one.where.topic]))
    await _check_quiet(sides, groups, copies.all)
    places = {one.where: one.places for one in copies.all}
    outcome = Outcome(_copied(topics, copies.all))
    for group in groups:
        await read(sides.source, group, counts)
        outcome.groups.append(await _hand_over(sides.target, translate(group, places)))
    await move_done_letters(sides, places)
    for topic in topics:
        await finish(sides.target, topic)
    for one in outcome.groups:
        await resume(sides.target, one.group)
    return outcome


async def _hand_over(target: Side, group: MovedGroup) -> Moved:
    """Write a translated group at the target, and look what it has there."""
    await write(target, group)
    after = await left_at(target, group)
    changed = await changed_at(target, group)
    return Moved(group, _sum(group.left.values()), _sum(after.values()), changed)


async def _check_two(sides: Sides) -> None:
    """Raises MoveRefused: both sides have the same topics."""
    here, there = [(await side.admin.describe_cluster()).cluster_id for side in sides]
    if here == there:
        raise MoveRefused(
            f"{sides.source.servers} and {sides.target.servers} have the same topics: both are of "
            f"the cluster {here}"
        )


class _Copies(NamedTuple):
    """The copies of all partitions, in stages; and the topics that are compared only."""

    stages: Sequence[Sequence[PartitionCopy]]
    compared: Collection[str]

    @property
    def all(self) -> list[PartitionCopy]:
        return [one for stage in self.stages for one in stage if self._is_moved(one)]

    async def compare(self) -> None:
        for stage in self.stages:
            await side_by_side(partial(self._compare, one) for one in stage)

    async def _compare(self, one: PartitionCopy) -> None:
        if self._is_moved(one):
            await one.compare()
            return
        try:
            await one.compare_whole()
        except MoveRefused as error:
            raise MoveRefused(
                f"dead letters are about records of {one.where.topic}: {error}"
            ) from error

    async def each(self, work: Callable[[PartitionCopy], Awaitable[None]]) -> None:
        for stage in self.stages:
            await side_by_side(partial(work, one) for one in stage if self._is_moved(one))

    def _is_moved(self, one: PartitionCopy) -> bool:
        return one.where.topic not in self.compared


async def _copies(sides: Sides, order: Stages, wanted: Wanted) -> _Copies:
    places: dict[TopicPartition, OffsetMap] = {}
    change = of_copies(places)

    async def one(topic: MovedTopic, index: int) -> PartitionCopy:
        where = TopicPartition(topic.name, index)
        source = await bounds_of(sides.source, where)
        target = Bounds(0, 0)
        if topic.name in order.compared:
            target = Bounds(*(await CommittedLog(sides.target.cluster, where).bounds())[:2])
        elif topic.exists:
            target = await bounds_of(sides.target, where)
        letters = change if topic.has_letters else None
        return PartitionCopy(sides, where, source, target, wanted.told, letters)

    stages = [
        await side_by_side(
            partial(one, topic, index) for topic in stage for index in range(topic.partitions)
        )
        for stage in order.stages
    ]
    places |= {each.where: each.places for stage in stages for each in stage}
    return _Copies(stages, order.compared)


async def _check_used(
    sides: Sides,
    groups: Sequence[MovedGroup],
    topics: Sequence[MovedTopic],
    copies: Sequence[PartitionCopy],
) -> None:
    """Raises MoveRefused: a group has other progress at the target, in a topic that is there."""
    there = {one.name for one in topics if one.exists}
    places = {one.where: one.places for one in copies if one.where.topic in there}
    for group in groups:
        known = MovedGroup(group.name, group.shares, group.settings)
        known.progress = {at: one for at, one in group.progress.items() if at in places}
        known.committed = {at: one for at, one in group.committed.items() if at in places}
        await missing(sides.target, translate(known, places))


async def _check_quiet(
    sides: Sides, groups: Sequence[MovedGroup], copies: Sequence[PartitionCopy]
) -> None:
    """Raises MoveRefused: somebody writes to the source, or a group has got members."""
    ends = await sides.source.admin.list_offsets([one.where for one in copies], OffsetSpec.LATEST)
    grown = [str(one.where) for one in copies if ends[one.where].offset != one.source.end]
    if grown:
        raise MoveRefused(
            f"records came to {', '.join(grown)} at {sides.source.servers} meanwhile: stop the "
            "producers, and run this again"
        )
    await check_empty(sides, groups)


def _copied(topics: Sequence[MovedTopic], copies: Sequence[PartitionCopy]) -> list[Copied]:
    found = {one.name: Copied(one) for one in topics}
    for one in copies:
        row = found[one.where.topic]
        row.copied += one.copied
        row.there += one.there
        row.moved = row.moved or one.places.moved
    return [*found.values()]


def _planned(
    topics: Sequence[MovedTopic], groups: Sequence[MovedGroup], copies: Sequence[PartitionCopy]
) -> Outcome:
    """What would become of all, if no records came meanwhile."""
    places = {one.where: one.places for one in copies}
    outcome = Outcome(_copied(topics, copies))
    for group in groups:
        left = _sum(translate(group, places).left.values())
        outcome.groups.append(Moved(group, left, left))
    return outcome


def _sum(left: Iterable[int | None]) -> int | None:
    """Over all partitions where it is known."""
    known = [one for one in left if one is not None]
    return sum(known) if known else None
