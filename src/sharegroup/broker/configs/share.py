"""Broker settings of share groups and of their durable state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.configs.define import integer
from sharegroup.model.config import INT_MAX, ConfigDef, ConfigType, ConfigValue

_MINUTES: Final = 60_000


def _triple(
    name: str,
    value: tuple[int, int, int],
    maximum: tuple[int, int, int],
    doc: str,
    *,
    minimum: tuple[int, int, int],
    aliases: tuple[str, ...] = (),
    max_aliases: tuple[str, ...] = (),
) -> Iterator[ConfigDef]:
    """A setting, and the settings that bound the group config of the same meaning. Each tuple is
    (default, lowest, highest)."""
    yield integer(
        f"group.share.{name}",
        value[0],
        value[1],
        doc,
        maximum=value[2],
        aliases=aliases,
        dynamic=True,
    )
    yield integer(
        f"group.share.min.{name}",
        minimum[0],
        minimum[1],
        f"The least that a group may set share.{name} to.",
        maximum=minimum[2],
        dynamic=True,
    )
    yield integer(
        f"group.share.max.{name}",
        maximum[0],
        maximum[1],
        f"The most that a group may set share.{name} to.",
        maximum=maximum[2],
        aliases=max_aliases,
        dynamic=True,
    )


def _only_simple(value: ConfigValue) -> str | None:
    return None if value == ("simple",) else "the one assignor there is here is simple"


SHARE_CONFIGS: Final = (
    *_triple(
        "session.timeout.ms",
        (45_000, 1, INT_MAX),
        (60_000, 1, INT_MAX),
        "A member that has not been heard of for this long leaves its group.",
        minimum=(45_000, 1, INT_MAX),
    ),
    *_triple(
        "heartbeat.interval.ms",
        (5_000, 1, INT_MAX),
        (15_000, 1, INT_MAX),
        "How often a member must be heard of.",
        minimum=(5_000, 1, INT_MAX),
    ),
    *_triple(
        "record.lock.duration.ms",
        (30_000, 1_000, 3_600_000),
        (60_000, 30_000, 3_600_000),
        "How long a consumer has to acknowledge a record before the record is available again.",
        minimum=(15_000, 1_000, 30_000),
        max_aliases=("group.share.record.lock.duration.max.ms",),
    ),
    *_triple(
        "delivery.count.limit",
        (5, 2, 10),
        (10, 5, 25),
        "How often a record is delivered before it is archived.",
        minimum=(2, 2, 5),
        aliases=("group.share.delivery.attempt.limit",),
    ),
    *_triple(
        "partition.max.record.locks",
        (2_000, 100, 10_000),
        (4_000, 2_000, 10_000),
        "How many records of one partition may be in flight in a group, acknowledged ones "
        "behind an "
        "unfinished one included.",
        minimum=(100, 100, 2_000),
        aliases=("group.share.record.lock.partition.limit",),
    ),
    *_triple(
        "assignment.interval.ms",
        (1_000, 0, INT_MAX),
        (15_000, 0, INT_MAX),
        "The least time between two computations of a group's assignment; "
        "whatever happens in between shares one. The first member of a group does not wait.",
        minimum=(0, 0, INT_MAX),
    ),
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
    integer(
        "share.coordinator.state.topic.num.partitions",
        1,
        1,
        "Partitions of __share_group_state; fixed once it exists.",
        aliases=("group.share.state.topic.num.partitions",),
        departs="one embedded node gains nothing from more (Kafka: 50)",
    ),
    integer(
        "share.coordinator.state.topic.replication.factor",
        1,
        1,
        "Copies of __share_group_state; there is one copy, whatever it says.",
        aliases=("group.share.state.topic.replication.factor",),
        departs="one embedded node holds one copy (Kafka: 3)",
    ),
    integer(
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
