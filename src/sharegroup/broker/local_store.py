"""Opens the store of a broker: a local data folder. No other module of the broker knows what kind
of store it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.stored_passwords import with_stored
from sharegroup.broker.configs.topic import log_settings
from sharegroup.broker.internal_topics import (
    INDIVIDUAL_COMMITS,
    INTERNAL_TOPICS,
    internal_settings,
)
from sharegroup.model.environment import Environment
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.store import Store, StoreFacts
from sharegroup.storage.data_folder import DataFolder, DataFolderSettings


async def open_local_store(
    environment: Environment,
    path: str,
    *,
    started_with: BrokerConfig,
    live: Callable[[], BrokerConfig | None],
    check_partitions: Callable[[int], None],
) -> Store:
    """Lock and recover the data folder ``path``.

    Args:
        started_with: the configs of the start; internal topics keep to these.
        live: the broker's configs now, for the settings of logs; None: there is no broker yet, and
            what was altered before this start holds.
        check_partitions: raises ConfigError if there are more partitions than can be opened.

    Raises:
        ConfigError: another process holds the folder, its catalog cannot be read, ``started_with``
            contradicts what was altered before, or ``check_partitions`` raised it.
        OSError: the folder cannot be used.
    """

    configs_then = started_with

    def known(facts: StoreFacts) -> None:
        nonlocal configs_then
        configs_then = with_stored(started_with, facts.broker_configs, facts.cluster_configs)

    def settings_of(topic: str, configs: Mapping[str, str]) -> LogSettings:
        if topic in INTERNAL_TOPICS:
            configs = {**internal_settings(topic, started_with), **configs}
            settings = log_settings(configs, live() or configs_then)
            # Of the other internal topics the runtime writes live records anew instead.
            return replace(settings, cleaned=settings.cleaned and topic == INDIVIDUAL_COMMITS)
        return log_settings(configs, live() or configs_then)

    settings = DataFolderSettings(
        log_settings=settings_of,
        node_id=started_with.node_id,
        known=known,
        check_partitions=check_partitions,
    )
    return await DataFolder.open(environment, path, settings)
