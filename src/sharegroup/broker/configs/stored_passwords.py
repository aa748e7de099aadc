"""Passwords are not stored. Settings that are altered while the broker runs are kept in
``catalog.json`` as they are written, and encrypting them with a key beside the file would hide
nothing. (Apache Kafka writes passwords into its metadata log as they are.) Passwords that earlier
releases stored are still in force, with a warning at each start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sharegroup.broker.configs.broker import BrokerConfig, definition_of
from sharegroup.model.config import ConfigType
from sharegroup.model.errors import ConfigError, InvalidConfig, InvalidRequest

logger = logging.getLogger("sharegroup.broker")

_WARNING: Final = (
    "catalog.json holds %s in plain text, as an earlier release stored it: set it where the "
    "broker's other settings are, then kafka-configs --alter --delete-config %s"
)


def with_stored(
    config: BrokerConfig, stored: Mapping[str, str], cluster: Mapping[str, str]
) -> BrokerConfig:
    """A copy of ``config`` with the settings that were altered before this start: ``stored`` for
    this broker, ``cluster`` for every broker.

    Raises:
        ConfigError: they do not go with the settings of this start.
    """
    secrets = {name: value for name, value in stored.items() if _is_secret(name)}
    try:
        return replace(config, dynamic=secrets).altered(stored, cluster)
    except (InvalidConfig, InvalidRequest) as error:
        altered = {**cluster, **stored}.items()
        shown = ", ".join(f"{n}={v}" for n, v in sorted(altered) if n not in secrets)
        raise ConfigError(
            f"settings that were altered while the broker ran do not go with those of this start: "
            f"{error}. Altered were: {shown}. Start with the settings of the last start, and alter "
            "these back (kafka-configs --alter)"
        ) from error


def warn_of_passwords(stored: Mapping[str, str]) -> None:
    """Warn of passwords among the settings that were altered for this broker."""
    for name in sorted(filter(_is_secret, stored)):
        logger.warning(_WARNING, name, name)


def _is_secret(name: str) -> bool:
    definition = definition_of(name)
    return (
        definition is not None and definition.type is ConfigType.PASSWORD and not definition.dynamic
    )
