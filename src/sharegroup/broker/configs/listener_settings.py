"""``listener.name.<name>.<setting>``: a setting of TLS or SASL for one listener, which wins over
the setting without prefix. ``listener.name.<name>.<mechanism>.<setting>``: the same for one
mechanism of the listener. Settings of tokens may be written either way, as in Kafka's
documentation.

Source: Kafka classes ListenerName, ChannelBuilders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sharegroup.broker.configs.security import JAAS, REAUTH, SECURITY_CONFIGS
from sharegroup.model.config import ConfigDef, ConfigTable, ConfigValue, format_value
from sharegroup.sasl.mechanisms import MECHANISMS, OAUTHBEARER

PREFIX: Final = "listener.name."
LISTENER_CONFIGS: Final = ConfigTable(SECURITY_CONFIGS)
_OF_MECHANISM: Final = frozenset({JAAS, REAUTH})
_OF_TOKENS: Final = "sasl.oauthbearer."
_OF_BROKER: Final = frozenset(
    {
        "connection.failed.authentication.delay.ms",
        "connections.authentication.timeout.ms",
        "sasl.server.max.receive.size",
    }
)
"""Settings of the whole broker: they hold whatever the listener of a connection, and no listener
can have its own."""


def suffix_of(name: str) -> str:
    """The setting that a name with the prefix is about; empty if the name lacks the prefix."""
    return name.removeprefix(PREFIX).partition(".")[2] if name.startswith(PREFIX) else ""


def listener_definition(name: str) -> ConfigDef | None:
    """The definition of a setting of one listener; None if there is no such setting."""
    suffix = suffix_of(name)
    mechanism, _, own = suffix.partition(".")
    if mechanism.upper() in MECHANISMS and (
        own in _OF_MECHANISM or (own.startswith(_OF_TOKENS) and mechanism == OAUTHBEARER.lower())
    ):
        suffix = own
    elif suffix == JAAS:
        return None  # Kafka wants this setting for one mechanism
    definition = LISTENER_CONFIGS.get(suffix)
    if definition is None or suffix in _OF_BROKER:
        return None
    return replace(definition, name=name)


def is_for_all(setting: str) -> bool:
    """Whether a setting of the broker cannot be set for one listener."""
    return setting in _OF_BROKER or setting not in LISTENER_CONFIGS


def setting_named(name: str) -> str:
    """The setting that a name with the prefix is about, without listener and mechanism."""
    suffix = suffix_of(name)
    mechanism, _, own = suffix.partition(".")
    return own if mechanism.upper() in MECHANISMS else suffix


class ListenerSettings:
    """The settings of one listener.

    Args:
        texts: all settings of the broker that are set.
    """

    def __init__(self, texts: Mapping[str, str], listener: str) -> None:
        self._texts = texts
        self._prefix = f"{PREFIX}{listener.lower()}."

    def value(self, setting: str, mechanism: str = "") -> ConfigValue:
        """The value in force for this listener."""
        definition = LISTENER_CONFIGS[setting]
        for name in self._names(setting, mechanism):
            if name in self._texts:
                return definition.parse(self._texts[name])
        return definition.default

    def text(self, setting: str, mechanism: str = "") -> str:
        """The value as text; empty if it is not set."""
        return format_value(self.value(setting, mechanism))

    def integer(self, setting: str, mechanism: str = "") -> int:
        """The value as a number; 0 if it is not set."""
        value = self.value(setting, mechanism)
        return value if isinstance(value, int) else 0

    def names(self, setting: str) -> tuple[str, ...]:
        """The value as a list."""
        value = self.value(setting)
        return value if isinstance(value, tuple) else ()

    def is_set(self, setting: str, *, here: bool = False) -> bool:
        """Whether somebody has set the setting; with ``here``: for this listener alone."""
        names = self._names(setting, "")
        return any(name in self._texts for name in (names[:1] if here else names))

    def name_of(self, setting: str, mechanism: str = "") -> str:
        """The name under which the setting is set, for errors."""
        found = self._names(setting, mechanism)
        return next((name for name in found if name in self._texts), setting)

    def _names(self, setting: str, mechanism: str) -> tuple[str, ...]:
        own = f"{self._prefix}{setting}"
        if setting.startswith(_OF_TOKENS):
            mechanism = OAUTHBEARER
        if mechanism:
            return f"{self._prefix}{mechanism.lower()}.{setting}", own, setting
        return own, setting
