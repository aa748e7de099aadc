"""Topics at the target: they are made with the settings of the source's. While records are copied,
nothing deletes them there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from sharegroup.client.admin.descriptions import ConfigSetting
from sharegroup.client.core.done_letters import DONE_TOPIC
from sharegroup.model import errors
from sharegroup.model.config import LONG_MAX
from sharegroup.move.side import MoveRefused, Side, Sides, settled

OWN: Final = 1
"""The source of a setting that the topic itself has, as DescribeConfigs numbers it."""
LARGEST: Final = "max.message.bytes"
LETTERS: Final = "errors.deadletterqueue.group.enable"
WHILE_COPYING: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""These are set at the end even if the source's topic has them from its broker: the broker of the
target may have others, which delete earlier."""
AS_THEY_ARE: Final = {
    "deduplication.window.ms": "0",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": str(LONG_MAX),
}
"""While records are copied, none is changed, refused or passed over; where the target knows these.
"""


@dataclass(slots=True)
class MovedTopic:
    """A topic of the source.

    Attributes:
        settings: its own, and those of WHILE_COPYING.
        exists: whether the target has it.
        has_letters: whether groups may write their dead letters to it.
        left_out: settings that the target does not take.
    """

    name: str
    partitions: int
    settings: Mapping[str, str]
    exists: bool
    has_letters: bool = False
    left_out: list[str] = field(default_factory=list)


async def moved_topics(
    sides: Sides, wanted: Sequence[str], advice: str = "delete it there, or leave it out"
) -> list[MovedTopic]:
    """The topics to move; none named: all that are not internal.

    Args:
        advice: what to do about a topic that is at the target with another number of partitions.

    Raises:
        MoveRefused: one is not there, or is at the target with another number of partitions.
    """
    here = {one.name: one for one in await sides.source.admin.list_topics()}
    here.pop(DONE_TOPIC, None)
    there = {one.name: one for one in await sides.target.admin.list_topics(include_internal=True)}
    unknown = [name for name in wanted if name not in here]
    if unknown:
        raise MoveRefused(f"{sides.source.servers} has no topic {', '.join(unknown)}")
    found = []
    for name in wanted or here:
        number = here[name].partition_count
        if name in there and there[name].partition_count != number:
            raise MoveRefused(
                f"topic {name} has {number} partitions, and {there[name].partition_count} at "
                f"{sides.target.servers}: {advice}"
            )
        settings = await _settings(sides.source, name)
        letters = settings.get(LETTERS) == "true"
        found.append(MovedTopic(name, number, settings, name in there, letters))
    return found


async def _settings(source: Side, topic: str) -> dict[str, str]:
    described = await source.admin.describe_configs("topic", topic)
    return {
        name: one.value
        for name, one in described.items()
        if one.value is not None and _is_moved(one)
    }


def _is_moved(one: ConfigSetting) -> bool:
    always = one.name in WHILE_COPYING or (one.name == LARGEST and not one.is_default)
    return not one.read_only and (one.source == OWN or always)


async def prepare(target: Side, topic: MovedTopic) -> int:
    """Make the topic, or make sure that nothing deletes its records while they are copied. Returns
    the size of the largest batch that it takes, in bytes."""
    early = dict(WHILE_COPYING)
    if LARGEST in topic.settings:
        early[LARGEST] = topic.settings[LARGEST]
    if topic.exists:
        await target.admin.alter_configs("topic", topic.name, early)
    else:
        await target.admin.create_topics(topic.name, partitions=topic.partitions, configs=early)
    await settled(target, lambda: _check_led(target, topic.name))
    described = await settled(target, lambda: target.admin.describe_configs("topic", topic.name))
    plain = {name: value for name, value in AS_THEY_ARE.items() if name in described}
    await settled(target, lambda: target.admin.alter_configs("topic", topic.name, plain))
    largest = described.get(LARGEST)
    return int(largest.value or 0) if largest is not None else 0


async def _check_led(target: Side, topic: str) -> None:
    if (await target.cluster.topic(topic)).partitions[0].leader < 0:
        await target.cluster.refresh()
        raise errors.LeaderNotAvailable(f"{topic} has no leader yet")


async def finish(target: Side, topic: MovedTopic) -> None:
    """Give the topic the settings of the source's."""
    known = await settled(target, lambda: target.admin.describe_configs("topic", topic.name))
    wanted = {**dict.fromkeys(AS_THEY_ARE), **topic.settings}
    settings = {name: value for name, value in wanted.items() if name in known}
    topic.left_out = [name for name in topic.settings if name not in known]
    topic.left_out += await set_all(target, "topic", topic.name, settings)


async def set_all(
    target: Side, kind: Literal["topic", "group"], name: str, settings: Mapping[str, str | None]
) -> list[str]:
    """Set these settings of a topic or a group, or take them away (None); those that are refused
    are returned."""
    if not settings:
        return []
    refused = (errors.InvalidConfig, errors.InvalidRequest)
    try:
        await settled(target, lambda: target.admin.alter_configs(kind, name, settings))
    except refused as error:
        if len(settings) == 1:
            return [f"{next(iter(settings))} ({error.message})"]
    else:
        return []
    each = [set_all(target, kind, name, {key: value}) for key, value in settings.items()]
    return [one for found in await asyncio.gather(*each) for one in found]
