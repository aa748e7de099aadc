"""The durable facts of a data folder that are not records: one JSON file, replaced atomically.

Every change is written first and believed after: when the write fails, memory still says what the
disk says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import parse_topic_id, topic_id_text
from sharegroup.storage.missing_catalog import rebuild_command

FILE_NAME: Final = "catalog.json"
VERSION: Final = 1

Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic."""

    topic_id: UUID
    partitions: int
    configs: Configs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything in the catalog at one moment."""

    cluster_id: str
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    group_configs: Mapping[str, Configs] = field(default_factory=dict)
    broker_configs: Configs = field(default_factory=dict)
    producer_ids_end: int = 0


class Catalog:
    """Reads and replaces the facts of one data folder. All methods that write raise OSError."""

    def __init__(self, disk: Disk, folder: str, facts: Facts) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self.facts = facts

    @classmethod
    def open(cls, disk: Disk, folder: str, new_cluster_id: str) -> Catalog:
        """Read the catalog; a folder without one is new and gets ``new_cluster_id``.

        Raises:
            ConfigError: the file is there and cannot be read.
        """
        catalog = cls(disk, folder, Facts(cluster_id=new_cluster_id))
        if disk.exists(catalog._path):
            catalog.facts = _parse(disk.read_file(catalog._path), catalog._path)
        else:
            catalog._write(catalog.facts)
        return catalog

    def put_topic(self, name: str, topic: TopicFacts) -> None:
        """Add or replace a topic."""
        self._write(replace(self.facts, topics={**self.facts.topics, name: topic}))

    def remove_topic(self, name: str) -> None:
        """Forget a topic."""
        topics = {key: topic for key, topic in self.facts.topics.items() if key != name}
        self._write(replace(self.facts, topics=topics))

    def put_group_configs(self, group_id: str, configs: Configs) -> None:
        """Replace a group's configs; empty ones forget the group."""
        groups = {**self.facts.group_configs, group_id: dict(configs)}
        if not configs:
            del groups[group_id]
        self._write(replace(self.facts, group_configs=groups))

    def put_broker_configs(self, configs: Configs) -> None:
        """Replace the broker's dynamic configs."""
        self._write(replace(self.facts, broker_configs=dict(configs)))

    def put_producer_ids_end(self, end: int) -> None:
        """All producer ids below ``end`` may be in use."""
        self._write(replace(self.facts, producer_ids_end=end))

    def _write(self, facts: Facts) -> None:
        topics = {
            name: {
                "id": topic_id_text(topic.topic_id),
                "partitions": topic.partitions,
                "configs": dict(topic.configs),
            }
            for name, topic in facts.topics.items()
        }
        content = {
            "version": VERSION,
            "cluster_id": facts.cluster_id,
            "topics": topics,
            "group_configs": facts.group_configs,
            "broker_configs": facts.broker_configs,
            "producer_ids_end": facts.producer_ids_end,
        }
        self._disk.write_file(self._path, json.dumps(content, indent=1).encode())
        self.facts = facts


def _parse(data: bytes, path: str) -> Facts:
    try:
        content: dict[str, Any] = json.loads(data)
        if content["version"] != VERSION:
            raise ConfigError(
                f"{path} is of version {content['version']}; this is version {VERSION}"
            )
        return Facts(
            cluster_id=content["cluster_id"],
            topics={
                name: TopicFacts(
                    topic_id=parse_topic_id(topic["id"]),
                    partitions=topic["partitions"],
                    configs=topic["configs"],
                )
                for name, topic in content["topics"].items()
            },
            group_configs=content["group_configs"],
            broker_configs=content["broker_configs"],
            producer_ids_end=content["producer_ids_end"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); restore it from a backup, or make it again with "
            f"{rebuild_command(path.rpartition('/')[0])}"
        ) from error
