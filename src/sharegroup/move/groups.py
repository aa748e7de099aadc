"""Which groups are moved, of both kinds, and whether they may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sharegroup.client.admin.descriptions import (
    ConsumerGroupDescription,
    ResourceType,
    ShareGroupDescription,
)
from sharegroup.client.admin.hand_requests import PAUSED
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.move import consumer_groups, share_groups
from sharegroup.move.consumer_groups import Committed
from sharegroup.move.share_groups import Progresses
from sharegroup.move.share_state_requests import check_right
from sharegroup.move.side import MoveRefused, Places, Side, Sides, settled
from sharegroup.move.topics import set_all
from sharegroup.wire import apis
from sharegroup.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

SHARE: Final = "share"
CONSUMER: Final = ("consumer", "classic")
OWN: Final = 8
"""The source of a setting that the group itself has, as DescribeConfigs numbers it."""


@dataclass(slots=True)
class MovedGroup:
    """A group of the source; of its progress, what is in the topics that are moved.

    Attributes:
        progress: of a share group.
        committed: of a consumer group.
        left: for each partition, how many records were not finished at the source.
        left_out: settings that the target does not take.
    """

    name: str
    shares: bool
    settings: Mapping[str, str]
    progress: Progresses = field(default_factory=dict)
    committed: Committed = field(default_factory=dict)
    left: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """Where it has progress."""
        return self.progress.keys() | self.committed.keys()


async def moved_groups(
    sides: Sides, wanted: Sequence[str], topics: Mapping[str, int], *, idle: bool
) -> list[MovedGroup]:
    """The groups to move; none named: all that have progress in the topics.

    Args:
        topics: how many partitions each has.
        idle: also those that have none.

    Raises:
        MoveRefused: one is not there, has members, or has state that cannot be moved; or the target
            has one of another kind.
    """
    kinds = {one.group_id: one.type.lower() for one in await sides.source.admin.list_groups()}
    for name in await _with_settings(sides.source):
        kinds.setdefault(name, SHARE)  # nobody has used it yet
    unknown = [name for name in wanted if name not in kinds]
    if unknown:
        raise MoveRefused(f"{sides.source.servers} has no group {', '.join(unknown)}")
    found = []
    for name in wanted or sorted(kinds):
        if kinds[name] not in (SHARE, *CONSUMER):
            if wanted:
                raise MoveRefused(f"group {name} is of type {kinds[name]}, which is not moved")
            continue
        group = await _moved(sides.source, name, topics, shares=kinds[name] == SHARE)
        if group.partitions or idle or wanted:
            found.append(group)
    await _check_kinds(sides.target, found)
    await check_empty(sides, found)
    return found


async def _check_kinds(target: Side, groups: Sequence[MovedGroup]) -> None:
    """Raises MoveRefused: the target has a group of that name and of another kind."""
    kinds = {one.group_id: one.type.lower() for one in await target.admin.list_groups()}
    for group in groups:
        kind = kinds.get(group.name)
        if kind is not None and (kind == SHARE) != group.shares:
            raise MoveRefused(
                f"group {group.name} is of type {kind} at {target.servers}: delete it there "
                f"(sharegroup -b {target.servers} groups delete {group.name}), or leave it out"
            )


async def _with_settings(source: Side) -> list[str]:
    """The groups that have settings, as far as the source tells us."""
    request = ListConfigResourcesRequest(resource_types=[int(ResourceType.GROUP)])

    async def attempt() -> ListConfigResourcesResponse:
        answer: ListConfigResourcesResponse = await source.cluster.send_to_any(
            apis.LIST_CONFIG_RESOURCES, request
        )
        if answer.error_code:
            raise errors.error_from_code(answer.error_code)
        return answer

    try:
        answer = await settled(source, attempt)
    except (errors.ClusterAuthorizationFailed, errors.UnsupportedVersion):
        return []
    return [one.resource_name for one in answer.config_resources]


async def check_rights(target: Side, groups: Sequence[MovedGroup]) -> None:
    """Raises MoveRefused: the progress of share groups could not be written."""
    if any(one.shares for one in groups):
        try:
            await check_right(target.cluster)
        except errors.ClusterAuthorizationFailed:
            raise MoveRefused(
                f"progress of share groups is written by whoever has the right CLUSTER_ACTION on "
                f"the cluster at {target.servers}; without it, name consumer groups by --group"
            ) from None


async def _moved(source: Side, name: str, topics: Mapping[str, int], *, shares: bool) -> MovedGroup:
    described = await source.admin.describe_configs("group", name)
    settings = {
        key: one.value
        for key, one in described.items()
        if one.source == OWN and one.value is not None
    }
    group = MovedGroup(name, shares, settings)
    await read(source, group, topics)
    return group


async def read(source: Side, group: MovedGroup, topics: Mapping[str, int]) -> None:
    """Read where the group is now."""
    if group.shares:
        group.progress = await share_groups.read_progress(source, group.name, topics)
    else:
        group.committed = await consumer_groups.read_committed(source, group.name, topics)


async def check_empty(sides: Sides, groups: Sequence[MovedGroup]) -> None:
    """Raises MoveRefused: a group has members; all of these are named."""
    busy = []
    for side in sides:
        for group in groups:
            found = await _described(side, group)
            if found is not None and found.members:
                busy.append(f"{group.name} ({len(found.members)} at {side.servers})")
    if busy:
        raise MoveRefused(
            f"these groups have members: {', '.join(busy)}. Stop them, and run this again"
        )


async def _described(
    side: Side, group: MovedGroup
) -> ShareGroupDescription | ConsumerGroupDescription | None:
    try:
        if group.shares:
            return (await side.admin.describe_share_groups([group.name]))[group.name]
        return (await side.admin.describe_consumer_groups([group.name]))[group.name]
    except errors.GroupIdNotFound:
        return None


def translate(group: MovedGroup, places: Places) -> MovedGroup:
    """The group with its progress in the copies, and with what is left there."""
    progress = share_groups.of_copy(group.progress, places)
    committed = consumer_groups.of_copy(group.committed, places)
    left: dict[TopicPartition, int | None] = {
        at: one.lag(places[at].end) for at, one in progress.items()
    }
    left |= {at: max(0, places[at].end - one.offset) for at, one in committed.items()}
    return MovedGroup(group.name, group.shares, group.settings, progress, committed, left)


async def missing(target: Side, group: MovedGroup) -> MovedGroup:
    """What of a translated group the target does not have yet. Raises MoveRefused."""
    return MovedGroup(
        group.name,
        group.shares,
        group.settings,
        await share_groups.missing(target, group.name, group.progress),
        await consumer_groups.missing(target, group.name, group.committed)
        if group.committed
        else {},
    )


async def write(target: Side, group: MovedGroup) -> None:
    """Write settings and progress of a translated group at the target. A share group is paused
    there until :func:`resume`, so that nobody gets a record before all is written.

    Raises:
        MoveRefused: it has other progress there; nothing was written.
        KafkaError: not all was written.
    """
    settings = dict(group.settings)
    lacking = await missing(target, group)
    if group.shares:
        settings[PAUSED] = "true"
    group.left_out = await set_all(target, "group", group.name, settings)
    await share_groups.write(target, group.name, lacking.progress)
    await consumer_groups.write(target, group.name, lacking.committed)


async def resume(target: Side, group: MovedGroup) -> None:
    """End the pause, unless the group is paused at the source."""
    if group.shares:
        await set_all(target, "group", group.name, {PAUSED: group.settings.get(PAUSED)})


async def left_at(target: Side, group: MovedGroup) -> dict[TopicPartition, int | None]:
    """How many records a moved group has not finished there, as the target tells it."""
    if not group.shares:
        there = await target.admin.list_consumer_group_offsets(group.name)
        ends = await settled(target, lambda: target.admin.list_offsets(group.committed))
        return {
            at: max(0, ends[at].offset - there[at].offset) if at in there else None
            for at in group.committed
        }
    found = await target.admin.list_share_group_offsets(group.name, group.progress)
    return {at: found[at].lag if at in found else None for at in group.progress}


async def changed_at(target: Side, group: MovedGroup) -> list[TopicPartition]:
    """Where the target does not have a moved share group's progress as it was meant."""
    if not group.shares:
        return []
    there = await share_groups.progress_at(target, group.name, group.progress)
    return [
        at for at, one in group.progress.items() if at not in there or not one.same_as(there[at])
    ]
