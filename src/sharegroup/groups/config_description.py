"""What DescribeConfigs says of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharegroup.groups.config import GROUP_CONFIGS, GroupDefaults
from sharegroup.model.config import (
    ConfigDef,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    format_value,
)


def describe_group_configs(
    overrides: Mapping[str, str],
    broker: GroupDefaults,
    broker_synonyms: Mapping[str, Sequence[ConfigSynonym]],
) -> list[ConfigEntry]:
    """DescribeConfigs of a group, whether it exists or not. ``broker_synonyms`` gives the sources
    of each broker setting's value, the effective one first.
    """
    return [_entry(GROUP_CONFIGS[n], overrides, broker, broker_synonyms) for n in GROUP_CONFIGS]


def _entry(
    definition: ConfigDef,
    overrides: Mapping[str, str],
    broker: GroupDefaults,
    broker_synonyms: Mapping[str, Sequence[ConfigSynonym]],
) -> ConfigEntry:
    name = definition.name
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        synonyms.append(ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.GROUP))
    for synonym in definition.synonyms:
        value = str(broker[name].value)
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
