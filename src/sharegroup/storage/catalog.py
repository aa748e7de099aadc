"""The durable facts of a data folder that are not records: one JSON file, replaced atomically.

Every change is written to disk before it is applied in memory. When the write fails, memory is
right: the file may have the change or not, until it is written again. To undo a change, memory
changes at once, and the next write brings it to the file.

The file ends with a checksum over everything before it. A catalog without one was written by an
earlier version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import parse_topic_id, topic_id_text
from sharegroup.model.store import Configs, StoreFacts, TopicFacts
from sharegroup.storage.missing_catalog import rebuild_command

FILE_NAME: Final = "catalog.json"
VERSION: Final = 1

_CHECKSUM: Final = re.compile(rb',\s*"crc32c":\s*(\d+)\s*}\s*\Z')
_KEYS: Final = {
    "version",
    "cluster_id",
    "topics",
    "group_configs",
    "broker_configs",
    "cluster_configs",
    "producer_ids_end",
    "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(StoreFacts):
    """Everything in the catalog at one moment."""

    producer_ids_end: int = 0
    deleted: Mapping[UUID, int] = field(default_factory=dict)
    """Topic id → the first partition that is deleted, where folders may be left."""


class _Line(NamedTuple):
    """A topic as encoded in the file, kept because most topics do not change between writes."""

    topic: TopicFacts
    text: str


class Catalog:
    """Reads and replaces the facts of one data folder. All methods that write raise OSError."""

    def __init__(self, disk: Disk, folder: str, facts: Facts) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self._lines: dict[str, _Line] = {}
        self.facts = facts
        self._counted = Facts(cluster_id=""), 0
        self.stale = False
        """The file differs from :attr:`facts`, or may differ."""
        self.size = 0
        """Bytes of the file."""

    @classmethod
    def open(cls, disk: Disk, folder: str, new_cluster_id: str) -> Catalog:
        """Read the catalog; a folder without one is new and gets ``new_cluster_id``.

        Raises:
            ConfigError: the file is there and cannot be read.
        """
        catalog = cls(disk, folder, Facts(cluster_id=new_cluster_id))
        if disk.exists(catalog._path):
            data = disk.read_file(catalog._path)
            catalog.facts, catalog.size = _parse(data, catalog._path), len(data)
        else:
            catalog._write(catalog.facts)
        return catalog

    @property
    def partition_count(self) -> int:
        """Partitions of all topics together."""
        facts, count = self._counted
        if facts is not self.facts:
            count = sum(topic.partitions for topic in self.facts.topics.values())
            self._counted = self.facts, count
        return count

    def put_topic(self, name: str, topic: TopicFacts) -> None:
        """Add or replace a topic."""
        topics = {**self.facts.topics, name: topic}
        self._write(replace(self._not_deleted(topic.topic_id), topics=topics))

    def remove_topic(self, name: str) -> None:
        """Remove a topic and list it as deleted; the caller removes its folders."""
        self._write(self._without(name, 0))

    def take_back(self, name: str, partitions: int) -> None:
        """Undo a failed change: set a topic back to this many partitions; 0 removes the topic.
        Takes effect at once, and is written with the next change.
        """
        self.facts = self._without(name, partitions)
        self.stale = True

    def write_if_stale(self) -> None:
        """Write the catalog if undone changes, or finished deletions, are not in the file yet, or
        if a change that failed may be in it."""
        if self.stale:
            self._write(self.facts)

    def forget_deleted(self, topic_id: UUID) -> None:
        """Note that all folders of a deletion are removed; written with the next change."""
        self.stale = True
        self.facts = self._not_deleted(topic_id)

    def _not_deleted(self, topic_id: UUID) -> Facts:
        if topic_id not in self.facts.deleted:
            return self.facts
        deleted = {key: first for key, first in self.facts.deleted.items() if key != topic_id}
        return replace(self.facts, deleted=deleted)

    def _without(self, name: str, partitions: int) -> Facts:
        topics = dict(self.facts.topics)
        topic = topics.pop(name)
        if partitions:
            topics[name] = replace(topic, partitions=partitions)
        deleted = {**self.facts.deleted, topic.topic_id: partitions}
        return replace(self.facts, topics=topics, deleted=deleted)

    def put_group_configs(self, group_id: str, configs: Configs) -> None:
        """Replace a group's configs; empty configs remove its entry."""
        groups = {**self.facts.group_configs, group_id: dict(configs)}
        if not configs:
            del groups[group_id]
        self._write(replace(self.facts, group_configs=groups))

    def put_broker_configs(self, configs: Configs) -> None:
        """Replace the broker's dynamic configs."""
        self._write(replace(self.facts, broker_configs=dict(configs)))

    def put_cluster_configs(self, configs: Configs) -> None:
        """Replace the dynamic defaults of every broker."""
        self._write(replace(self.facts, cluster_configs=dict(configs)))

    def put_producer_ids_end(self, end: int) -> None:
        """Note that all producer ids below ``end`` may be in use."""
        self._write(replace(self.facts, producer_ids_end=end))

    def _write(self, facts: Facts) -> None:
        data = self._encoded(facts)
        self.stale = True  # a write that fails may have replaced the file
        self._disk.write_file(self._path, data)
        self.facts = facts
        self.stale = False
        self.size = len(data)

    def _encoded(self, facts: Facts) -> bytes:
        lines = {name: self._line(name, topic) for name, topic in facts.topics.items()}
        self._lines = lines
        deleted = {topic_id_text(key): first for key, first in facts.deleted.items()}
        rest = {
            "group_configs": {key: dict(value) for key, value in facts.group_configs.items()},
            "broker_configs": dict(facts.broker_configs),
            "producer_ids_end": facts.producer_ids_end,
            "deleted": deleted,
        }
        if facts.cluster_configs:  # without them an earlier release can read the file
            rest["cluster_configs"] = dict(facts.cluster_configs)
        text = "".join(
            [
                f'{{\n"version": {VERSION},\n"cluster_id": {json.dumps(facts.cluster_id)},\n',
                '"topics": {\n',
                ",\n".join(line.text for line in lines.values()),
                "\n}",
                *(f',\n"{key}": {json.dumps(value)}' for key, value in rest.items()),
            ]
        )
        data = text.encode()
        return data + b',\n"crc32c": %d\n}\n' % crc32c(data)

    def _line(self, name: str, topic: TopicFacts) -> _Line:
        line = self._lines.get(name)
        if line is not None and line.topic is topic:
            return line
        content = {
            "id": topic_id_text(topic.topic_id),
            "partitions": topic.partitions,
            "configs": dict(topic.configs),
        }
        return _Line(topic, f"  {json.dumps(name)}: {json.dumps(content)}")


def _parse(data: bytes, path: str) -> Facts:
    try:
        content: dict[str, Any] = json.loads(_checked(data))
        if content["version"] != VERSION:
            raise ConfigError(
                f"{path} is of version {content['version']}; this is version {VERSION}"
            )
        unknown = content.keys() - _KEYS
        if unknown:
            raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
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
            cluster_configs=content.get("cluster_configs", {}),
            producer_ids_end=content["producer_ids_end"],
            deleted={
                parse_topic_id(key): first for key, first in content.get("deleted", {}).items()
            },
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); restore it from a backup, or make it again with "
            f"{rebuild_command(path.rpartition('/')[0])}"
        ) from error


def _checked(data: bytes) -> bytes:
    """The catalog without its checksum, after checking it if there is one."""
    found = _CHECKSUM.search(data)
    if found is None:
        return data
    covered = data[: found.start()]
    if crc32c(covered) != int(found[1]):
        raise ValueError("its checksum is wrong")
    return covered + b"}"
