"""Whether a topic takes dead letters of groups, and why not. The broker's rules are the ones of
``sharegroup.broker.dead_letters.goal``."""

from __future__ import annotations

from typing import Final

from sharegroup.client.admin.admin import Admin
from sharegroup.console.causes import waiting_text
from sharegroup.model.errors import KafkaError, SharegroupError, UnknownTopicOrPartition

TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
COPY_RECORD: Final = "errors.deadletterqueue.copy.record.enable"
ENABLE: Final = "errors.deadletterqueue.group.enable"
_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
_AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"


async def lacking(admin: Admin, topic: str) -> str | None:
    """What keeps dead letters out of this topic, as the end of a sentence; None: nothing that the
    viewer may see."""
    broker = await broker_settings(admin)
    prefix = broker.get(_PREFIX) or ""
    if not topic.startswith(prefix):
        return f"the topic's name {topic} does not begin with {prefix!r}"
    takes = await takes_letters(admin, topic)
    if takes is None:
        made = broker.get(_AUTO_CREATE) == "true"
        return None if made else f"the topic {topic} does not exist"
    return None if takes else f"the topic {topic} takes no dead letters (its {ENABLE} is false)"


async def lacking_of_group(admin: Admin, topic: str | None) -> str | None:
    """What keeps dead letters out of the topic that a group names for them."""
    return await lacking(admin, topic) if topic else "the group names no topic for them"


async def no_letter(admin: Admin, group: str) -> str | None:
    """A warning that what is given up leaves no dead letter; None: it leaves one, or the viewer may
    not see whether."""
    try:
        named = (await admin.describe_configs("group", group)).get(TOPIC_NAME)
    except SharegroupError:
        return None
    if named is not None and named.value:
        return None
    return f"{group} names no topic for dead letters, so no letter is written, and no reason kept."


async def waiting_letters(admin: Admin, group: str) -> str | None:
    """A sentence about the dead letters of a group that cannot be written; None: there are none."""
    summary = (await admin.summarize_share_groups([group]))[group]
    if isinstance(summary, KafkaError):
        return None
    dead = sum(one.dead or 0 for one in summary.offsets.values())
    if not dead:
        return None
    try:
        named = (await admin.describe_configs("group", group)).get(TOPIC_NAME)
    except SharegroupError:
        return waiting_text(dead, None)
    return waiting_text(dead, await lacking_of_group(admin, None if named is None else named.value))


async def takes_letters(admin: Admin, topic: str) -> bool | None:
    """Whether the topic's setting lets it; None: there is no such topic."""
    try:
        await admin.describe_topics(topic)
        setting = (await admin.describe_configs("topic", topic)).get(ENABLE)
    except UnknownTopicOrPartition:
        return None
    except SharegroupError:
        return True  # it may not be seen
    return setting is None or setting.value == "true"


async def prefix_of(admin: Admin) -> str:
    """How the name of every dead-letter topic must begin, as far as the viewer may see."""
    return (await broker_settings(admin)).get(_PREFIX) or ""


async def broker_settings(admin: Admin) -> dict[str, str | None]:
    """The settings of one broker; none if the viewer may not see them."""
    try:
        node = (await admin.describe_cluster()).nodes[0].node_id
        found = await admin.describe_configs("broker", str(node))
    except (SharegroupError, IndexError):
        return {}
    return {name: one.value for name, one in found.items()}
