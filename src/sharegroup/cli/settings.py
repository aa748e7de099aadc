"""Settings of topics and groups: parses KEY=VALUE arguments, and reads a resource's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sharegroup.cli.outcome import UsageError, complain
from sharegroup.client.admin.admin import Admin, Resource
from sharegroup.client.admin.descriptions import ConfigSetting
from sharegroup.model.errors import GroupAuthorizationFailed, TopicAuthorizationFailed

# Kafka's ConfigSource: set on the topic, set on the group. All others are inherited.
OWN_SOURCES: Final = frozenset({1, 8})


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse ``["key=value", …]`` into a dict.

    Raises:
        UsageError: a pair has no ``=`` or no key.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{pair!r} is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def own_settings(configs: Mapping[str, ConfigSetting]) -> dict[str, str | None]:
    """The settings made on the resource itself, not inherited."""
    return {name: one.value for name, one in configs.items() if one.source in OWN_SOURCES}


async def settings_if_shown(
    admin: Admin, kind: Resource, name: str, *, quiet: bool = False
) -> dict[str, str | None] | None:
    """The own settings of a topic or group. Without the right to see them: None, and, unless
    ``quiet``, a message on stderr.

    Kafka has a separate right for settings (DESCRIBE_CONFIGS). A user who may only describe still
    gets the rest of a description.
    """
    try:
        return own_settings(await admin.describe_configs(kind, name))
    except (GroupAuthorizationFailed, TopicAuthorizationFailed):
        if not quiet:
            complain(f"the settings of {kind} {name} are not shown: they need DESCRIBE_CONFIGS")
        return None
