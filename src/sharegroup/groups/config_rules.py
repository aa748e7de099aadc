"""What the settings of a group must obey together, and with the broker's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.groups.config import GROUP_CONFIGS, GroupDefaults, GroupSettings, effective
from sharegroup.model.config import ConfigDef, nearest_name
from sharegroup.model.errors import InvalidConfig

_REFUSED: Final = {
    "streams.": "there are no streams groups",
}
"""Why Kafka's other settings of groups are refused, by the beginning of their names."""


def check_group_configs(overrides: Mapping[str, str], broker: GroupDefaults) -> None:
    """Check ``overrides``: all settings of a group, as they would be after a change.

    Raises:
        InvalidConfig: an unknown name, an unreadable value, a value out of the broker's bounds, or
            a session that would not outlast a heartbeat interval. The messages are Kafka's.
    """
    values = {name: _definition(name).parse(text) for name, text in overrides.items()}
    for name, bounds in broker.items():
        value = values.get(name)
        if isinstance(value, int) and not bounds.minimum <= value <= bounds.maximum:
            raise InvalidConfig(
                f"{name} must be in the range {bounds.minimum} to {bounds.maximum} inclusive."
            )
    settings = effective(overrides, broker)
    _check_orders(settings)
    for kind, session_ms, heartbeat_ms in (
        ("share", settings.session_timeout_ms, settings.heartbeat_interval_ms),
        (
            "consumer",
            settings.consumer_session_timeout_ms,
            settings.consumer_heartbeat_interval_ms,
        ),
    ):
        if session_ms <= heartbeat_ms:
            raise InvalidConfig(
                f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
            )


def _check_orders(settings: GroupSettings) -> None:
    """Check that the settings ask for one order of delivery.

    Raises:
        InvalidConfig: they ask for several, or say only half of one.
    """
    fairness = f"share.fairness={settings.fairness}"
    by_key = settings.ordering == "key"
    if settings.fairness != "none" and by_key:
        raise InvalidConfig(f"{fairness} gives up the order that share.ordering=key keeps")
    if settings.priority_header and by_key:
        raise InvalidConfig(
            "share.priority.header gives up the order that share.ordering=key keeps"
        )
    if settings.priority_header and settings.fairness != "none":
        raise InvalidConfig(f"share.priority.header and {fairness} both say who is next: set one")
    if settings.fairness == "header" and not settings.fairness_header:
        raise InvalidConfig(f"{fairness} needs share.fairness.header: the name of the header")


def _definition(name: str) -> ConfigDef:
    definition = GROUP_CONFIGS.get(name)
    if definition is None:
        for prefix, reason in _REFUSED.items():
            if name.startswith(prefix):
                raise InvalidConfig(f"{name} cannot be set here: {reason}")
        near = GROUP_CONFIGS.today(name) or nearest_name(name, GROUP_CONFIGS)
        raise InvalidConfig(
            f"Unknown group config name: {name}" + (f"; did you mean {near}?" if near else "")
        )
    return definition
