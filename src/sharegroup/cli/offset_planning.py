"""Makes the plan of an offset reset: which partitions of which groups, and their new offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sharegroup.cli.group_choice import chosen_groups
from sharegroup.cli.group_kinds import GroupKind, Kinds
from sharegroup.cli.offset_plan import Plan
from sharegroup.cli.outcome import UsageError, complain
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The new offsets: a place for ListOffsets (a time in ms, or an OffsetSpec), an offset, or a
    plan from a file. Without any of the three: the group's current offsets, moved by ``shift``.
    """

    at: int | None = None
    offset: int | None = None
    plan: Plan | None = None
    shift: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The partitions to reset: the named ones of ``topics`` (None: all of a topic); or all
    partitions that have offsets."""

    groups: Sequence[str]
    every_group: bool
    kind: GroupKind | None
    topics: Mapping[str, list[int] | None]
    every_topic: bool


async def make_plan(admin: Admin, kinds: Kinds, scope: Scope, target: Target) -> Plan:
    """Make the plan. An offset outside of its log is replaced by the nearest end of the log, with a
    message on stderr.

    Raises:
        UsageError: a group has no offsets to reset.
        UnknownTopicOrPartition: a partition does not exist.
    """
    if target.plan is not None:
        return {group: await _within_log(admin, offsets) for group, offsets in target.plan.items()}
    plan: Plan = {}
    wanted = await chosen_groups(admin, scope.groups, every=scope.every_group, kind=scope.kind)
    named = None if scope.every_topic else await _named(admin, scope)
    for group in wanted:
        known = await start_offsets(admin, kinds, group, named)
        partitions = [*known] if named is None else named
        if not partitions:
            raise UsageError(f"group {group} has no offsets: name topics with --topic")
        if target.at is not None:
            plan[group] = await _offsets_at(admin, partitions, target.at)
        elif target.offset is not None:
            plan[group] = await _within_log(admin, dict.fromkeys(partitions, target.offset))
        else:
            plan[group] = await _current(admin, group, known, partitions, target.shift)
    return plan


async def start_offsets(
    admin: Admin, kinds: Kinds, group: str, wanted: Collection[TopicPartition] | None
) -> dict[TopicPartition, int | None]:
    """The current start offsets of the group in the wanted partitions (None: in all that it has);
    the committed offsets, if it is a consumer group. Empty if the group does not exist.

    Raises:
        KafkaError: an offset cannot be read. Whoever took it for no offset would skip records.
    """
    if not kinds.is_share(group):
        committed = await admin.list_consumer_group_offsets(group)
        return {where: one.offset for where, one in sorted(committed.items())}
    try:
        offsets = await admin.list_share_group_offsets(group)
    except GroupIdNotFound:
        return {}
    found = {at: one for at, one in offsets.items() if wanted is None or at in wanted}
    for one in found.values():
        if one.error is not None:
            raise one.error
    return {where: one.start_offset for where, one in found.items()}


async def _named(admin: Admin, scope: Scope) -> list[TopicPartition]:
    topics = await admin.describe_topics(*scope.topics)
    return [
        TopicPartition(name, number)
        for name, numbers in scope.topics.items()
        for number in (
            [one.partition for one in topics[name].partitions] if numbers is None else numbers
        )
    ]


async def _offsets_at(
    admin: Admin, partitions: Sequence[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(partitions, at)
    offsets = {where: found[where].offset for where in partitions}
    too_old = [where for where, offset in offsets.items() if offset < 0]
    for where, end in (await _ends(admin, too_old)).items():
        complain(f"{where} has no record since then: using its end offset, {end}")
        offsets[where] = end
    return offsets


async def _current(
    admin: Admin,
    group: str,
    known: Mapping[TopicPartition, int | None],
    partitions: Sequence[TopicPartition],
    shift: int,
) -> dict[TopicPartition, int]:
    ends = await _ends(admin, [where for where in partitions if known.get(where) is None])
    for where, end in ends.items():
        complain(f"group {group} has no offset for {where}: using its end offset, {end}")
    current = {where: known.get(where) or 0 for where in partitions} | ends
    return await _within_log(admin, {where: at + shift for where, at in current.items()})


async def _ends(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    found = await admin.list_offsets(partitions, OffsetSpec.LATEST)
    return {where: one.offset for where, one in found.items()}


async def _within_log(
    admin: Admin, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    starts = await admin.list_offsets(asked, OffsetSpec.EARLIEST)
    ends = await admin.list_offsets(asked, OffsetSpec.LATEST)
    within = {}
    for where, offset in asked.items():
        first, end = starts[where].offset, ends[where].offset
        within[where] = min(max(offset, first), end)
        if within[where] != offset:
            complain(
                f"{where} has offsets {first} to {end}: using {within[where]} instead of {offset}"
            )
    return within
