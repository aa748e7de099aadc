"""Broker settings of share groups and of their durable state."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import flag, integer, short, text
from sharegroup.broker.configs.groups import group_settings
from sharegroup.model.config import ConfigDef, ConfigType, ConfigValue

_MINUTES: Final = 60_000


def _only_simple(value: ConfigValue) -> str | None:
    return None if value == ("simple",) else "the one assignor there is here is simple"


SHARE_CONFIGS: Final = (
    *group_settings("share"),
    integer("group.share.max.size", 200, 1, "Members in a group.", maximum=1_000),
    integer(
        "group.share.max.share.sessions",
        2_000,
        1,
        "Share sessions open at once; at least group.share.max.size.",
        aliases=("max.share.session.cache.slots",),
    ),
    integer(
        "group.share.records.per.rewrite",
        10_000,
        1,
        "Not a Kafka setting. After so many records in __consumer_offsets (but at least twice the "
        "live ones) all share groups are written anew and what lies before is deleted.",
        dynamic=True,
    ),
    ConfigDef(
        name="group.share.assignors",
        type=ConfigType.LIST,
        default=("simple",),
        check=_only_simple,
        doc="The assignor of share groups.",
    ),
    flag(
        "errors.deadletterqueue.auto.create.topics.enable",
        False,
        "Whether the broker makes the dead-letter topic that a group names, with num.partitions "
        "partitions, when its first dead letter is written.",
        dynamic=True,
    ),
    text(
        "errors.deadletterqueue.topic.name.prefix",
        "dlq.",
        "How the name of every dead-letter topic begins. Dead letters of a group that names "
        "another topic wait. Empty: any name will do.",
        dynamic=True,
    ),
    integer(
        "share.coordinator.state.topic.num.partitions",
        1,
        1,
        "Partitions of __share_group_state; fixed once it exists.",
        aliases=("group.share.state.topic.num.partitions",),
        departs="one embedded node gains nothing from more (Kafka: 50)",
    ),
    short(
        "share.coordinator.state.topic.replication.factor",
        1,
        1,
        "Copies of __share_group_state; there is one copy, whatever it says.",
        aliases=("group.share.state.topic.replication.factor",),
        departs="one embedded node holds one copy (Kafka: 3)",
    ),
    short(
        "share.coordinator.state.topic.min.isr",
        1,
        1,
        "Copies that must exist before a write counts; there is one copy, whatever it says.",
        aliases=("group.share.state.topic.min.isr",),
        departs="one embedded node holds one copy (Kafka: 2)",
    ),
    integer(
        "share.coordinator.state.topic.segment.bytes",
        104_857_600,
        1,
        "Segment size of __share_group_state.",
        aliases=("group.share.state.topic.segment.bytes",),
    ),
    integer(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        0,
        "Updates of a share partition's state between two snapshots of it.",
        maximum=500,
    ),
    integer(
        "share.coordinator.state.topic.prune.interval.ms",
        5 * _MINUTES,
        1,
        "How often state records that a later snapshot replaces are deleted.",
    ),
    integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        5 * _MINUTES,
        1,
        "A share partition whose last snapshot is older gets a new one, so that old segments "
        "can go.",
    ),
)
