"""The broker's settings as DescribeConfigs shows them: values, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Final

from sharegroup.broker.configs.broker import BROKER_CONFIGS, BrokerConfig, definition_of
from sharegroup.broker.configs.listener_settings import listener_definition
from sharegroup.groups.config import GROUP_CONFIGS
from sharegroup.model.config import (
    ConfigDef,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ConfigValue,
    format_value,
)

_SAME_THING: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
)
"""Groups of settings that say the same in different units; the first that is set holds."""


def describe_broker(config: BrokerConfig) -> list[ConfigEntry]:
    """All settings of the broker."""
    own = [listener_definition(name) for name in config.set_by_somebody]
    definitions = [*BROKER_CONFIGS.values(), *filter(None, own)]
    return [_entry(definition, _sources(config, definition.name)) for definition in definitions]


def sources_of_group_defaults(config: BrokerConfig) -> dict[str, list[ConfigSynonym]]:
    """Where the values come from of the broker's settings that are the defaults of groups."""
    names = {name for definition in GROUP_CONFIGS.values() for name in definition.synonyms}
    return {name: _sources(config, name) for name in names & BROKER_CONFIGS.keys()}


def describe_cluster(config: BrokerConfig) -> list[ConfigEntry]:
    """The altered defaults of every broker; defaults that were not altered are left out."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _entry(
            definition_of(name) or BROKER_CONFIGS[name],
            [ConfigSynonym(name=name, value=text, source=source)],
        )
        for name, text in config.cluster.items()
    ]


def _sources(config: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """Where the value of a setting comes from, and which values would hold without it. As in Kafka,
    without settings that take precedence over the setting itself."""
    names = next((group for group in _SAME_THING if name in group), (name,))
    found = [*_set_by_somebody(config, names), *_defaults(names, None)]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def broker_synonyms(
    config: BrokerConfig, names: Sequence[str], default: ConfigValue
) -> list[ConfigSynonym]:
    """Where a value comes from that any of the settings ``names`` can set; the source in effect is
    first. As in Kafka, only the default of the first name counts. ``default``: the default, for a
    setting that has no effect here."""
    return [*_set_by_somebody(config, names), *_defaults(names[:1], default)]


def _set_by_somebody(config: BrokerConfig, names: Sequence[str]) -> Iterator[ConfigSynonym]:
    for source, layer in (
        (ConfigSource.DYNAMIC_BROKER, config.dynamic),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, config.cluster),
        (ConfigSource.STATIC_BROKER, config.static),
    ):
        for name in names:
            if name in layer:
                yield ConfigSynonym(name=name, value=layer[name], source=source)


def _defaults(names: Sequence[str], default: ConfigValue) -> Iterator[ConfigSynonym]:
    for name in names:
        value = BROKER_CONFIGS[name].default if name in BROKER_CONFIGS else default
        if value is not None:
            yield ConfigSynonym(name=name, value=format_value(value), source=ConfigSource.DEFAULT)


def _entry(definition: ConfigDef, synonyms: list[ConfigSynonym]) -> ConfigEntry:
    """The entry of a setting whose ``synonyms`` say where its value comes from."""
    secret = definition.type is ConfigType.PASSWORD
    if secret:  # its value is never shown, as in Kafka
        synonyms = [replace(synonym, value=None) for synonym in synonyms]
    return ConfigEntry(
        name=definition.name,
        value=synonyms[0].value if synonyms else None,
        sensitive=secret,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=definition.type,
        doc=definition.doc,
        read_only=not definition.dynamic,
        synonyms=tuple(synonyms),
    )
