"""Settings of a group (KIP-932, KIP-1240), which users set within the broker's bounds.

The effective value is the group's, else the broker's. A value outside the broker's bounds is
refused when it is set. If the bounds shrink later, the value is clamped on use (Kafka class
GroupConfig).

Consumer groups have settings of their own (KIP-848), ``consumer.…``. Dead letters are set by
``errors.deadletterqueue.…`` (KIP-1191). Kafka's ``streams.*`` settings of groups are refused: they
would have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, TypeAlias

from sharegroup.groups.config_fields import BrokerBounds, bounded, plain
from sharegroup.groups.config_values import (
    check_dead_letter_topic,
    check_header,
    check_offset_reset,
    check_separator,
    check_weights,
    fraction,
    offset_reset,
    weights,
    whole,
)
from sharegroup.groups.offset_reset import OffsetReset
from sharegroup.model.config import INT_MAX, ConfigDef, ConfigTable, ConfigType
from sharegroup.model.limits import (
    EXPIRY_MS_MAX,
    PAUSE_MS_MAX,
    RATE_INTERVAL_MS_MAX,
    RATE_RECORDS_MAX,
)


class Bounded(NamedTuple):
    """A broker's default for groups, and the range of values that a group may set (both ends
    included).
    """

    value: int
    minimum: int
    maximum: int

    def clamp(self, wanted: int) -> int:
        """The value within the bounds that is nearest to ``wanted``."""
        return max(self.minimum, min(wanted, self.maximum))


GroupDefaults: TypeAlias = Mapping[str, Bounded]
"""The broker's defaults and bounds, by the group config's name."""


def config_name(field_name: str) -> str:
    """The name of the group config of a field of :class:`GroupSettings`."""
    name = field_name.replace("_", ".")
    return name if name.startswith(("consumer.", "errors.")) else f"share.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The effective settings of one group. Each field defines a group config, which has the
    field's name with ``share.`` before it (unless it begins with ``consumer_`` or ``errors_``). A
    bounded field also defines the broker's three settings. Defaults and bounds are Kafka's.
    """

    session_timeout_ms: int = bounded(
        (45_000, 1, INT_MAX),
        (45_000, 1, INT_MAX),
        (60_000, 1, INT_MAX),
        "The coordinator removes a member that sends no heartbeat for this long.",
    )
    heartbeat_interval_ms: int = bounded(
        (5_000, 1, INT_MAX),
        (5_000, 1, INT_MAX),
        (15_000, 1, INT_MAX),
        "How often a member sends a heartbeat.",
    )
    record_lock_duration_ms: int = bounded(
        (30_000, 1_000, 3_600_000),
        (15_000, 1_000, 30_000),
        (60_000, 30_000, 3_600_000),
        "How long a consumer has to acknowledge a record before the record is available again.",
        aliases=("record.lock.duration.ms",),
        maximum_aliases=("group.share.record.lock.duration.max.ms",),
    )
    delivery_count_limit: int = bounded(
        (5, 2, 10),
        (2, 2, 5),
        (10, 5, 25),
        "How often a record is delivered before it is archived.",
        aliases=("share.delivery.attempt.limit",),
        broker_aliases=("group.share.delivery.attempt.limit",),
    )
    partition_max_record_locks: int = bounded(
        (2_000, 100, 10_000),
        (100, 100, 2_000),
        (4_000, 2_000, 10_000),
        "How many records of one partition may be in flight in a group, "
        "acknowledged ones behind an unfinished one included.",
        aliases=("share.record.lock.partition.limit",),
        broker_aliases=("group.share.record.lock.partition.limit",),
    )
    assignment_interval_ms: int = bounded(
        (1_000, 0, INT_MAX),
        (0, 0, INT_MAX),
        (15_000, 0, INT_MAX),
        "The least time between two computations of a group's assignment; "
        "whatever happens in between shares one. The first member of a group does not wait.",
    )
    auto_offset_reset: OffsetReset = plain(
        "latest",
        ConfigType.STRING,
        "Where the group begins in a topic that is new to it: earliest, latest, or "
        "by_duration:PnDTnHnMn.nS (that long ago).",
        read=offset_reset,
        check=check_offset_reset,
        aliases=("group.share.auto.offset.reset",),
    )
    isolation_level: str = plain(
        "read_uncommitted",
        ConfigType.STRING,
        "Whether records of transactions that are open or were aborted are delivered.",
        read=str,
        choices=("read_committed", "read_uncommitted"),
        aliases=("group.share.isolation.level",),
    )
    renew_acknowledge_enable: bool = plain(
        True,
        ConfigType.BOOLEAN,
        "Whether consumers may renew the lock of a record.",
        read=bool,
    )
    paused: bool = plain(
        False,
        ConfigType.BOOLEAN,
        "Not a Kafka setting. While it is true, no record is delivered to the group: fetches wait, "
        "acknowledgements work (sharegroup groups pause, sharegroup groups resume).",
        read=bool,
    )
    ordering: str = plain(
        "none",
        ConfigType.STRING,
        "Not a Kafka setting. With key, all records of a key that are in flight are with one "
        "member, in the order of the log, and the others of that key wait for them. A change takes "
        "all records in flight back.",
        read=str,
        choices=("none", "key"),
    )
    ordering_key_max_in_flight: int = plain(
        100,
        ConfigType.INT,
        "Not a Kafka setting. With share.ordering=key, how many records of one key a member holds "
        "at once. With 1 it gets the next one when it has finished the one before.",
        read=whole,
        minimum=1,
        maximum=10_000,
    )
    ordering_on_failure: str = plain(
        "archive",
        ConfigType.STRING,
        "Not a Kafka setting. With share.ordering=key, what becomes of a record that fails at the "
        "delivery limit. With archive its key goes on. With block its key waits until an operator "
        "releases or archives the record (sharegroup groups release, sharegroup groups archive).",
        read=str,
        choices=("archive", "block"),
    )
    fairness: str = plain(
        "none",
        ConfigType.STRING,
        "Not a Kafka setting. With key, keys take turns: one with very many records does not make "
        "the others wait. With header, the values of share.fairness.header take turns. There is no "
        "order then. A change takes all records in flight back.",
        read=str,
        choices=("none", "key", "header"),
    )
    fairness_header: str = plain(
        "",
        ConfigType.STRING,
        "Not a Kafka setting. With share.fairness=header, the name of the header whose values take "
        "turns. A change takes all records in flight back.",
        read=str,
        check=check_header,
    )
    fairness_key_separator: str = plain(
        "",
        ConfigType.STRING,
        "Not a Kafka setting. With share.fairness, one ASCII character: keys (or values of the "
        "header) with the same part before it take one turn together. A change takes all records "
        "in flight back.",
        read=str,
        check=check_separator,
    )
    fairness_max_in_flight: int = plain(
        0,
        ConfigType.INT,
        "Not a Kafka setting. With share.fairness, how many records of whoever takes a turn the "
        "members of a group hold at once, in each partition. 0: any number.",
        read=whole,
        minimum=0,
        maximum=10_000,
    )
    fairness_weights: tuple[tuple[str, int], ...] = plain(
        "",
        ConfigType.STRING,
        "Not a Kafka setting. How much some get of what others get in turns, as acme=4,free=0.5.",
        read=weights,
        check=check_weights,
    )
    fairness_rate_max_records: int = plain(
        0,
        ConfigType.INT,
        "Not a Kafka setting. With share.fairness, how many records of whoever takes a turn the "
        "group is given in share.fairness.rate.interval.ms, over all members and partitions, "
        "evenly. 0: any number.",
        read=whole,
        minimum=0,
        maximum=RATE_RECORDS_MAX,
    )
    fairness_rate_interval_ms: int = plain(
        1_000,
        ConfigType.INT,
        "Not a Kafka setting. The time for which share.fairness.rate.max.records counts.",
        read=whole,
        minimum=1,
        maximum=RATE_INTERVAL_MS_MAX,
    )
    priority_header: str = plain(
        "",
        ConfigType.STRING,
        "Not a Kafka setting. The name of the header that says a record's priority, 0 to 9 in "
        "decimal digits: records of a higher one go first, records without one have 4. There is no "
        "order then. Empty: none do. A change takes all records in flight back.",
        read=str,
        check=check_header,
    )
    priority_overtakes_max: int = plain(
        20,
        ConfigType.INT,
        "Not a Kafka setting. With share.priority.header, after so many records that overtook an "
        "older one of a lower priority the oldest one is delivered. 0: it waits until there is "
        "none of a higher priority.",
        read=whole,
        minimum=0,
        maximum=1_000_000,
    )
    rate_max_records: int = plain(
        0,
        ConfigType.INT,
        "Not a Kafka setting. How many records the whole group is given in share.rate.interval.ms, "
        "over all members and partitions, evenly. 0: any number.",
        read=whole,
        minimum=0,
        maximum=RATE_RECORDS_MAX,
    )
    rate_interval_ms: int = plain(
        1_000,
        ConfigType.INT,
        "Not a Kafka setting. The time for which share.rate.max.records counts.",
        read=whole,
        minimum=1,
        maximum=RATE_INTERVAL_MS_MAX,
    )
    release_backoff_ms: int = plain(
        0,
        ConfigType.INT,
        "Not a Kafka setting. How long a record rests that is released, or whose lock expires, "
        "after its first delivery; it grows with each delivery. 0: it is delivered again at once. "
        "With share.ordering=key the later records of its key wait for it.",
        read=whole,
        minimum=0,
        maximum=PAUSE_MS_MAX,
    )
    release_backoff_max_ms: int = plain(
        60_000,
        ConfigType.INT,
        "Not a Kafka setting. The longest such rest, before jitter.",
        read=whole,
        minimum=1,
        maximum=PAUSE_MS_MAX,
    )
    release_backoff_multiplier: float = plain(
        2.0,
        ConfigType.DOUBLE,
        "Not a Kafka setting. How much longer each rest is than the one before.",
        read=fraction,
        minimum=1,
        maximum=100,
    )
    release_backoff_jitter: float = plain(
        0.2,
        ConfigType.DOUBLE,
        "Not a Kafka setting. Each rest is longer or shorter by up to this fraction.",
        read=fraction,
        minimum=0,
        maximum=1,
    )
    record_expiry_ms: int = plain(
        0,
        ConfigType.LONG,
        "Not a Kafka setting. So long after its timestamp a record is delivered no more; 0: never.",
        read=whole,
        minimum=0,
        maximum=EXPIRY_MS_MAX,
    )
    record_expiry_header_enable: bool = plain(
        False,
        ConfigType.BOOLEAN,
        "Not a Kafka setting. Whether a record is delivered no more after the time in its header "
        "sharegroup.expires.at: milliseconds since 1970, as decimal digits.",
        read=bool,
    )
    record_expiry_action: str = plain(
        "deadletter",
        ConfigType.STRING,
        "Not a Kafka setting. With deadletter an expired record becomes a dead letter, if the "
        "group has dead letters. With drop it is only archived, and counted.",
        read=str,
        choices=("deadletter", "drop"),
    )
    record_schedule_header_enable: bool = plain(
        False,
        ConfigType.BOOLEAN,
        "Not a Kafka setting. Whether a record is not delivered before the time in its header "
        "sharegroup.deliver.at: milliseconds since 1970, as decimal digits. With "
        "share.ordering=key the later records of its key wait for it. To turn it off takes all "
        "records in flight back.",
        read=bool,
    )
    errors_deadletterqueue_topic_name: str = plain(
        "",
        ConfigType.STRING,
        "The topic that gets a dead letter for each record that a member rejects or that fails at "
        "the delivery limit. The topic needs errors.deadletterqueue.group.enable=true, and a name "
        "that begins with the broker's errors.deadletterqueue.topic.name.prefix. Empty: no dead "
        "letters.",
        read=str,
        check=check_dead_letter_topic,
    )
    errors_deadletterqueue_copy_record_enable: bool = plain(
        False,
        ConfigType.BOOLEAN,
        "Whether a dead letter has the key, the value and the headers of its record. Without, it "
        "says only which record it was.",
        read=bool,
    )
    consumer_session_timeout_ms: int = bounded(
        (45_000, 1, INT_MAX),
        (45_000, 1, INT_MAX),
        (60_000, 1, INT_MAX),
        "The coordinator removes a member of a consumer group that sends no heartbeat for this "
        "long.",
    )
    consumer_heartbeat_interval_ms: int = bounded(
        (5_000, 1, INT_MAX),
        (5_000, 1, INT_MAX),
        (15_000, 1, INT_MAX),
        "How often a member of a consumer group sends a heartbeat.",
    )
    consumer_assignment_interval_ms: int = bounded(
        (1_000, 0, INT_MAX),
        (0, 0, INT_MAX),
        (15_000, 0, INT_MAX),
        "The least time between two computations of a consumer group's assignment; "
        "whatever happens in between shares one. The first member of a group does not wait.",
    )


_FIELDS: Final = {config_name(each.name): each for each in fields(GroupSettings)}
"""The fields by config name."""

WIDE_WINDOW: Final = ConfigDef(
    name="share.partition.wide.record.locks",
    type=ConfigType.INT,
    default=0,
    minimum=0,
    maximum=10_000_000,
    doc="Not a Kafka setting. If it is not 0, it replaces "
    "share.partition.max.record.locks, without that setting's bounds: for a group that holds "
    "large batches on purpose, as a Spark query does. The Spark source sets it.",
    dynamic=True,
)

GROUP_CONFIGS: Final = ConfigTable(
    [*(each.metadata["define"](name) for name, each in _FIELDS.items()), WIDE_WINDOW]
)

BROKER_BOUNDS: Final[Mapping[str, BrokerBounds]] = {
    name: each.metadata["bounds"] for name, each in _FIELDS.items() if "bounds" in each.metadata
}
"""The broker's settings for each bounded config."""

KAFKAS_DEFAULTS: Final[GroupDefaults] = {
    name: Bounded(each.value[0], each.minimum[0], each.maximum[0])
    for name, each in BROKER_BOUNDS.items()
}
"""The defaults and bounds of a broker without settings."""


def effective(overrides: Mapping[str, str], broker: GroupDefaults) -> GroupSettings:
    """The effective settings of a group with these ``overrides``, on this broker.

    Raises:
        InvalidConfig: a value cannot be read. Cannot happen to settings that
            :func:`~sharegroup.groups.config_rules.check_group_configs` has accepted.
    """
    resolved: dict[str, Any] = {}
    for name, each in _FIELDS.items():
        definition, text = GROUP_CONFIGS[name], overrides.get(name)
        own = None if text is None else definition.parse(text)
        bounds = broker.get(name)
        if bounds is None:
            value = each.metadata["read"](definition.default if own is None else own)
        else:
            value = bounds.clamp(int(str(own))) if own is not None else bounds.clamp(bounds.value)
        resolved[each.name] = value
    wide = WIDE_WINDOW.parse(overrides.get(WIDE_WINDOW.name, "0"))
    if wide:
        resolved["partition_max_record_locks"] = wide
    return GroupSettings(**resolved)


def today(overrides: Mapping[str, str]) -> dict[str, str]:
    """The same settings, with names from KIP drafts replaced by the current ones."""
    return {GROUP_CONFIGS.today(name) or name: text for name, text in overrides.items()}
