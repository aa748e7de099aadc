"""Acts about topics and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from sharegroup.client.admin.descriptions import ConfigSetting, OffsetSpec
from sharegroup.console.act_fields import BadAct, Given, Said, offset, optional, text
from sharegroup.console.causes import count
from sharegroup.console.desk import Desk
from sharegroup.console.letter_goals import (
    COPY_RECORD,
    ENABLE,
    TOPIC_NAME,
    broker_settings,
    lacking,
    prefix_of,
    takes_letters,
)
from sharegroup.console.limits import GROUPS_NAMED, PARTITIONS_MAX
from sharegroup.console.record_life import LIMIT
from sharegroup.console.topic_views import is_internal
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import TopicPartition

_KINDS: Final[Mapping[str, Literal["group", "topic"]]] = {"group": "group", "topic": "topic"}
_OF_BROKER: Final = re.compile(r"\bgroup\.[a-z]+\.(?:min|max)\.[a-z.]+[a-z]")
"""The broker's settings that bound the settings of groups, as descriptions name them."""
_RUNNING: Final = (
    "Workers with --dead-letter that run write letters of their own for some seconds more. Members "
    "of other programs may have to start again before their letters say why a record failed."
)
_READ_AT_START: Final = {LIMIT: ["workers that run go by it from their next start on"]}


async def configure(desk: Desk, given: Given, do: bool) -> str | Said:
    """Set a setting of a group or a topic, or let its default hold again."""
    kind = _KINDS.get(text(given, "kind"))
    if kind is None:
        raise BadAct("kind is neither group nor topic")
    name, setting = text(given, "of"), text(given, "setting")
    value = optional(given, "value")
    known = await desk.admin.describe_configs(kind, name)
    if setting not in known:
        raise BadAct(f"a {kind} has no setting {setting}")
    if do:
        await desk.admin.alter_configs(kind, name, {setting: value})
        now = (await desk.admin.describe_configs(kind, name))[setting].value
        return f"{setting} of {name} is {now or 'empty'}."
    before = known[setting]
    hint = await _bounds(desk, before)
    if value == before.value or (value is None and (before.is_default or not before.value)):
        same = before.value or "empty"
        return Said(f"It is {same} already.", hint=hint, nothing=True)
    await desk.admin.alter_configs(kind, name, {setting: value}, validate_only=True)
    goal = "its default" if value is None else value
    warning = None
    if setting == TOPIC_NAME and value is not None:
        why = await lacking(desk.admin, value)
        warning = why and f"No dead letter can be written: {why}."
    said = f"Set {setting} of the {kind} {name} from {before.value or 'empty'} to {goal}."
    return Said(said, warning, hint)


async def _bounds(desk: Desk, setting: ConfigSetting) -> str | None:
    """The values of the broker's settings that this one's description names, and who takes a
    change over only later."""
    named = _OF_BROKER.findall(setting.documentation or "")
    broker = await broker_settings(desk.admin) if named else {}
    known = [f"{one} is {broker[one]}" for one in named if broker.get(one)]
    return "; ".join([*known, *_READ_AT_START.get(setting.name, ())]) or None


async def dead_letters(desk: Desk, given: Given, do: bool) -> str | Said:
    """Let a group write dead letters: make the topic, and set what the topic and the group need."""
    group, topic = text(given, "group"), text(given, "topic")
    copies = "false" if given.get("copies") == "false" else "true"
    prefix = await prefix_of(desk.admin)
    if not topic.startswith(prefix):
        raise BadAct(f"the name of a dead-letter topic must begin with {prefix!r} at this broker")
    takes = await takes_letters(desk.admin, topic)
    wanted = {TOPIC_NAME: topic, COPY_RECORD: copies}
    known = await desk.admin.describe_configs("group", group)
    absent = wanted.keys() - known.keys()
    if absent:
        raise BadAct(f"this broker has no setting {min(absent)}")
    dry = not do
    if takes is None:
        enable = {ENABLE: "true"}
        await desk.admin.create_topics(topic, partitions=1, configs=enable, validate_only=dry)
    elif not takes:
        await desk.admin.alter_configs("topic", topic, {ENABLE: "true"}, validate_only=dry)
    await desk.admin.alter_configs("group", group, wanted, validate_only=dry)
    if do:
        return f"Dead letters of {group} go to {topic}."
    if takes and all(known[name].value == value for name, value in wanted.items()):
        return Said(f"Dead letters of {group} go to {topic} already.", nothing=True)
    steps = {None: f"Make the topic {topic}", False: f"Let the topic {topic} take dead letters"}
    first = "" if takes else f"{steps[takes]}. "
    copied = "with a copy of the record" if copies == "true" else "without a copy of the record"
    said = f"{first}Write dead letters of {group} to {topic}, {copied}."
    return Said(said, warning=_RUNNING if await members_of(desk, group) else None)


async def members_of(desk: Desk, group: str) -> int:
    """How many members a group has, which need not exist."""
    try:
        described = (await desk.admin.describe_share_groups([group]))[group]
    except GroupIdNotFound:
        return 0
    return len(described.members)


async def create_topic(desk: Desk, given: Given, do: bool) -> str:
    """Make a topic."""
    topic, partitions = text(given, "topic"), offset(given, "partitions")
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise BadAct(f"a topic has 1 to {PARTITIONS_MAX:,} partitions")
    if do:
        await desk.admin.create_topics(topic, partitions=partitions)
        return f"The topic {topic} is there."
    if topic in {one.name for one in await desk.admin.list_topics()}:
        raise BadAct(f"there is a topic {topic} already")
    await desk.admin.create_topics(topic, partitions=partitions, validate_only=True)
    return f"Make the topic {topic} with {count(partitions, 'partition')}."


async def delete_topic(desk: Desk, given: Given, do: bool) -> str | Said:
    """Delete a topic and all its records."""
    topic = text(given, "topic")
    if is_internal(topic):
        raise BadAct(f"{topic} is internal: sharegroup keeps its own data there")
    if do:
        await desk.admin.delete_topics(topic)
        return f"{topic} is deleted."
    described = (await desk.admin.describe_topics(topic))[topic]
    partitions = [TopicPartition(topic, one.partition) for one in described.partitions]
    first = await desk.admin.list_offsets(partitions, OffsetSpec.EARLIEST)
    end = await desk.admin.list_offsets(partitions, OffsetSpec.LATEST)
    records = sum(end[at].offset - first[at].offset for at in partitions)
    groups = await desk.queues.list.groups_of(topic)
    more = len(groups) - GROUPS_NAMED
    named = ", ".join(groups[:GROUPS_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return Said(
        f"Delete the topic {topic}: {count(len(partitions), 'partition')} with "
        f"{count(records, 'record')}, and what groups know of them. It cannot be undone.",
        warning=f"Share groups that use it: {named}." if groups else None,
    )
