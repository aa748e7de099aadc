"""The settings in force: the broker's, including alterations while it runs, and each group's.

Reading is cheap, because delivery reads them at every request: resolved values are cached until a
setting changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sharegroup.broker.configs.broker import BrokerConfig, definition_of
from sharegroup.broker.configs.topic import check_topic_configs, topic_value
from sharegroup.groups.config import GroupSettings, effective, today
from sharegroup.groups.config_rules import check_group_configs
from sharegroup.model.config import ConfigType, split_list
from sharegroup.model.errors import InvalidConfig, KafkaStorageError
from sharegroup.model.limits import GROUP_SETTINGS_MAX
from sharegroup.model.store import ConfigStore


class LiveConfigs:
    """Broker, topic and group settings of one running broker, durable in its store."""

    def __init__(self, broker: BrokerConfig, store: ConfigStore) -> None:
        self.broker = broker
        self._store = store
        self._groups: dict[str, GroupSettings] = {}
        self.prepare: Callable[[BrokerConfig], Callable[[], None]] = lambda _: lambda: None
        """Called with altered settings before they are in force. The function that it returns is
        called when they are."""

    def group(self, group_id: str) -> GroupSettings:
        """The effective settings of a group, which need not exist."""
        settings = self._groups.get(group_id)
        if settings is None:
            settings = effective(self.of_group(group_id), self.broker.group_defaults())
            if len(self._groups) >= GROUP_SETTINGS_MAX:
                del self._groups[next(iter(self._groups))]  # the oldest
            self._groups[group_id] = settings
        return settings

    def forget(self, group_id: str) -> None:
        """The group is deleted. Its own settings stay in the store, as in Kafka."""
        self._groups.pop(group_id, None)

    def changed_elsewhere(self) -> None:
        """Another node has changed settings of groups, or of all nodes, in the store."""
        altered = self.broker.altered(cluster=self._store.facts.cluster_configs)
        self._alter(altered, lambda: None, validate_only=False)

    def of_group(self, group_id: str) -> Mapping[str, str]:
        """A group's own settings."""
        return self._store.facts.group_configs.get(group_id, {})

    def configured_groups(self) -> list[str]:
        """The ids of the groups that have settings of their own, sorted."""
        return sorted(name for name, own in self._store.facts.group_configs.items() if own)

    def of_topic(self, name: str) -> Mapping[str, str]:
        """The own settings of an existing topic."""
        return self._store.topics[name].configs

    def topic_flag(self, name: str, config: str) -> bool:
        """The effective value of a switch of an existing topic."""
        return topic_value(config, self.of_topic(name), self.broker) is True

    def set_group(self, group_id: str, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace a group's settings, durably.

        Raises:
            InvalidConfig: one of them is invalid.
        """
        configs = today(configs)
        check_group_configs(configs, self.broker.group_defaults())
        if not validate_only:
            self._store.set_group_configs(group_id, configs)
            self._groups.pop(group_id, None)

    def set_topic(self, name: str, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace a topic's settings, durably.

        Raises:
            InvalidConfig: one of them is invalid.
        """
        check_topic_configs(configs)
        if not validate_only:
            self._store.set_topic_config(name, configs)

    def set_broker(self, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the broker's own settings that were altered while it runs, durably.

        Raises:
            InvalidConfig: one of them is invalid.
            InvalidRequest: one of them needs a restart.
        """
        _check_lists(configs)
        altered = self.broker.altered(dynamic=configs)
        self._alter(altered, lambda: self._store.set_broker_configs(configs), validate_only)

    def set_cluster(self, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the defaults of every broker, durably.

        Raises:
            InvalidConfig: one of them is invalid.
            InvalidRequest: one of them needs a restart, or belongs to one broker.
        """
        _check_lists(configs)
        altered = self.broker.altered(cluster=configs)
        self._alter(altered, lambda: self._store.set_cluster_configs(configs), validate_only)

    def _alter(self, altered: BrokerConfig, store: Callable[[], None], validate_only: bool) -> None:
        install = self.prepare(altered)
        if not validate_only:
            before, self.broker = self.broker, altered
            try:
                store()
            except KafkaStorageError:
                self.broker = before
                raise
            self._groups.clear()
            install()


def _check_lists(configs: Mapping[str, str]) -> None:
    """Refuse lists of the broker that name a value twice. Lists in files, and lists of topics, may
    do so, as in Kafka (KIP-1161).

    Raises:
        InvalidConfig: a list names a value twice.
    """
    for name, text in configs.items():
        definition = definition_of(name)
        if definition is None or definition.type is not ConfigType.LIST:
            continue
        parts = split_list(text)
        if len(set(parts)) != len(parts):
            raise InvalidConfig(f"Configuration '{name}' values must not be duplicated.")
