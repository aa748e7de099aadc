"""Settings of a share group (KIP-932, KIP-1240), which users set within the broker's bounds.

The effective value is the group's, else the broker's. A value outside the broker's bounds is
refused when it is set. If the bounds shrink later, the value is clamped on use (Kafka class
GroupConfig).

Kafka's ``consumer.*``, ``streams.*`` and dead-letter settings of groups are unknown here: they
would have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sharegroup.groups.offset_reset import LATEST, OffsetReset, parse_offset_reset
from sharegroup.model.config import (
    ConfigDef,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigTable,
    ConfigType,
    ConfigValue,
    format_value,
    nearest_name,
)
from sharegroup.model.errors import InvalidConfig


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerGroupDefaults:
    """The broker's ``group.share.*`` settings for groups. Defaults and bounds are Kafka's."""

    session_timeout_ms: Bounded = field(default=Bounded(45_000, 45_000, 60_000))
    heartbeat_interval_ms: Bounded = field(default=Bounded(5_000, 5_000, 15_000))
    record_lock_duration_ms: Bounded = field(default=Bounded(30_000, 15_000, 60_000))
    delivery_count_limit: Bounded = field(default=Bounded(5, 2, 10))
    partition_max_record_locks: Bounded = field(default=Bounded(2_000, 100, 4_000))
    assignment_interval_ms: Bounded = field(default=Bounded(1_000, 0, 15_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The effective settings of one group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    auto_offset_reset: OffsetReset = LATEST
    isolation_level: str = "read_uncommitted"
    renew_acknowledge_enable: bool = True
    assignment_interval_ms: int = 1_000


WIDE_WINDOW: Final = "share.partition.wide.record.locks"


def _check_offset_reset(value: ConfigValue) -> str | None:
    try:
        parse_offset_reset(str(value))
    except ValueError as error:
        return str(error)
    return None


def _bounded(name: str, default: int, minimum: int, doc: str, *aliases: str) -> ConfigDef:
    return ConfigDef(
        name=f"share.{name}",
        type=ConfigType.INT,
        default=default,
        minimum=minimum,
        doc=f"{doc} Must lie within group.share.min.{name} and group.share.max.{name}.",
        synonyms=(f"group.share.{name}",),
        aliases=aliases,
        dynamic=True,
    )


GROUP_CONFIGS: Final = ConfigTable(
    [
        _bounded(
            "session.timeout.ms",
            45_000,
            1,
            "A member that has not been heard of for this long leaves the group.",
        ),
        _bounded("heartbeat.interval.ms", 5_000, 1, "How often a member must be heard of."),
        _bounded(
            "record.lock.duration.ms",
            30_000,
            1000,
            "How long a consumer has to acknowledge a record before the record is available again.",
            "record.lock.duration.ms",
        ),
        _bounded(
            "delivery.count.limit",
            5,
            2,
            "How often a record is delivered before it is archived.",
            "share.delivery.attempt.limit",
        ),
        _bounded(
            "partition.max.record.locks",
            2_000,
            100,
            "How many records of one partition may be in flight, "
            "acknowledged ones behind an unfinished one included.",
            "share.record.lock.partition.limit",
        ),
        _bounded(
            "assignment.interval.ms",
            1_000,
            0,
            "The least time between two computations of the target assignment; "
            "whatever happens in between shares one. The first member of a group does not wait.",
        ),
        ConfigDef(
            name="share.auto.offset.reset",
            type=ConfigType.STRING,
            default="latest",
            check=_check_offset_reset,
            doc="Where the group begins in a topic that is new to it: earliest, latest, or "
            "by_duration:PnDTnHnMn.nS (that long ago).",
            aliases=("group.share.auto.offset.reset",),
            dynamic=True,
        ),
        ConfigDef(
            name="share.isolation.level",
            type=ConfigType.STRING,
            default="read_uncommitted",
            choices=("read_committed", "read_uncommitted"),
            doc="Whether records of transactions that are open or were aborted are delivered.",
            aliases=("group.share.isolation.level",),
            dynamic=True,
        ),
        ConfigDef(
            name="share.renew.acknowledge.enable",
            type=ConfigType.BOOLEAN,
            default=True,
            doc="Whether consumers may renew the lock of a record.",
            dynamic=True,
        ),
        ConfigDef(
            name=WIDE_WINDOW,
            type=ConfigType.INT,
            default=0,
            minimum=0,
            maximum=10_000_000,
            doc="Not a Kafka setting. Where it is not 0 it takes the place of "
            "share.partition.max.record.locks, without that one's bounds: for a group that holds "
            "large batches on purpose, as a Spark query does. The Spark source sets it.",
            dynamic=True,
        ),
    ]
)

_BOUNDED_NAMES: Final = tuple(name for name, entry in GROUP_CONFIGS.items() if entry.synonyms)


def field_name(name: str) -> str:
    """The field of :class:`GroupSettings` and :class:`BrokerGroupDefaults` for a setting."""
    return name.removeprefix("share.").replace(".", "_")


def check_group_configs(overrides: Mapping[str, str], broker: BrokerGroupDefaults) -> None:
    """Check ``overrides``: all settings of a group, as they would be after a change.

    Raises:
        InvalidConfig: an unknown name, an unreadable value, one out of the broker's bounds, or a
            session that would not outlast a heartbeat interval. The messages are Kafka's.
    """
    values = {name: _definition(name).parse(text) for name, text in overrides.items()}
    for name in _BOUNDED_NAMES:
        bounds: Bounded = getattr(broker, field_name(name))
        value = values.get(name)
        if isinstance(value, int) and not bounds.minimum <= value <= bounds.maximum:
            raise InvalidConfig(
                f"{name} must be in the range {bounds.minimum} to {bounds.maximum} inclusive."
            )
    settings = effective(overrides, broker)
    if settings.session_timeout_ms <= settings.heartbeat_interval_ms:
        raise InvalidConfig(
            "share.session.timeout.ms must be greater than share.heartbeat.interval.ms"
        )


def effective(overrides: Mapping[str, str], broker: BrokerGroupDefaults) -> GroupSettings:
    """The effective settings of a group with these ``overrides``, on this broker.

    Raises:
        InvalidConfig: a value cannot be read. Cannot happen to settings that
            :func:`check_group_configs` has accepted.
    """
    resolved: dict[str, int] = {}
    for name in _BOUNDED_NAMES:
        bounds: Bounded = getattr(broker, field_name(name))
        text = overrides.get(name)
        wanted = bounds.value if text is None else int(str(GROUP_CONFIGS[name].parse(text)))
        resolved[field_name(name)] = bounds.clamp(wanted)
    wide = _own(overrides, WIDE_WINDOW)
    if isinstance(wide, int) and wide:
        resolved["partition_max_record_locks"] = wide
    return GroupSettings(
        **resolved,
        auto_offset_reset=parse_offset_reset(str(_own(overrides, "share.auto.offset.reset"))),
        isolation_level=str(_own(overrides, "share.isolation.level")),
        renew_acknowledge_enable=bool(_own(overrides, "share.renew.acknowledge.enable")),
    )


def describe_group_configs(
    overrides: Mapping[str, str],
    broker: BrokerGroupDefaults,
    broker_synonyms: Mapping[str, Sequence[ConfigSynonym]],
) -> list[ConfigEntry]:
    """DescribeConfigs of a group, whether it exists or not. ``broker_synonyms`` gives the sources
    of each broker setting's value, the effective one first.
    """
    return [_entry(GROUP_CONFIGS[n], overrides, broker, broker_synonyms) for n in GROUP_CONFIGS]


def today(overrides: Mapping[str, str]) -> dict[str, str]:
    """The same settings, with names from KIP drafts replaced by the current ones."""
    return {GROUP_CONFIGS.today(name) or name: text for name, text in overrides.items()}


def _definition(name: str) -> ConfigDef:
    definition = GROUP_CONFIGS.get(name)
    if definition is None:
        near = GROUP_CONFIGS.today(name) or nearest_name(name, GROUP_CONFIGS)
        raise InvalidConfig(
            f"Unknown group config name: {name}" + (f"; did you mean {near}?" if near else "")
        )
    return definition


def _own(overrides: Mapping[str, str], name: str) -> ConfigValue:
    definition = GROUP_CONFIGS[name]
    return definition.parse(overrides[name]) if name in overrides else definition.default


def _entry(
    definition: ConfigDef,
    overrides: Mapping[str, str],
    broker: BrokerGroupDefaults,
    broker_synonyms: Mapping[str, Sequence[ConfigSynonym]],
) -> ConfigEntry:
    name = definition.name
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        synonyms.append(ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.GROUP))
    for synonym in definition.synonyms:
        value = str(getattr(broker, field_name(name)).value)
        unset = ConfigSynonym(name=synonym, value=value, source=ConfigSource.DEFAULT)
        synonyms.extend(broker_synonyms.get(synonym, (unset,)))
    if not definition.synonyms:
        default = format_value(definition.default)
        synonyms.append(ConfigSynonym(name=name, value=default, source=ConfigSource.DEFAULT))
    return ConfigEntry(
        name=name,
        value=synonyms[0].value,
        source=synonyms[0].source,
        type=definition.type,
        doc=definition.doc,
        synonyms=tuple(synonyms),
    )
