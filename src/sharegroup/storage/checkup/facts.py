"""Reads the catalog, or rebuilds it from the folders of the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError, InvalidTopic
from sharegroup.model.ids import TopicPartition, topic_id_text
from sharegroup.model.store import TopicFacts
from sharegroup.model.topic_name import check_topic_name
from sharegroup.storage.catalog import FILE_NAME, Catalog, Facts
from sharegroup.storage.checkup import small_files
from sharegroup.transactions.producer_ids import BLOCK_SIZE

PARTITIONS_MAX: Final = 1_000_000
"""No topic can have so many folders; a larger number in a folder's name is damage."""
PRODUCER_IDS_SPARE: Final = 1_000 * BLOCK_SIZE
"""Ids skipped when a catalog is rebuilt: retention may have deleted all batches of a producer."""


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The facts to check the folder by. ``problem`` says why the catalog file could not be used;
    None: the facts are from the file.
    """

    facts: Facts
    problem: str | None = None


def read_catalog(
    disk: Disk, root: str, folders: Sequence[TopicPartition], new_id: Callable[[], UUID]
) -> CatalogState:
    """The catalog, or a rebuilt one. ``new_id`` makes random ids in place of lost ones.

    Raises:
        ConfigError: the catalog has another version; only that version may write it.
    """
    problem = "is missing"
    if disk.exists(f"{root}/{FILE_NAME}"):
        try:
            facts = Catalog.open(disk, root, "").facts
            _check_types(facts)
        except ConfigError as error:
            if "is of version" in str(error):
                raise
            problem = f"is damaged: {error}"
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            problem = f"is damaged: {error}"
        else:
            return CatalogState(facts)
    return CatalogState(_from_folders(disk, root, folders, new_id), problem)


def _check_types(facts: Facts) -> None:
    """Raise ValueError, TypeError or AttributeError if the facts are invalid."""
    for name, topic in facts.topics.items():
        try:
            check_topic_name(name)
        except InvalidTopic as error:
            raise ValueError(error.message) from error
        if type(topic.partitions) is not int or not 0 < topic.partitions <= PARTITIONS_MAX:
            raise ValueError(f"topic {name} cannot have {topic.partitions!r} partitions")
        _check_configs(topic.configs)
    for configs in facts.group_configs.values():
        _check_configs(configs)
    _check_configs(facts.broker_configs)
    _check_configs(facts.cluster_configs)
    if not facts.cluster_id or type(facts.cluster_id) is not str:
        raise ValueError(f"a cluster cannot have the id {facts.cluster_id!r}")
    if type(facts.producer_ids_end) is not int or facts.producer_ids_end < 0:
        raise ValueError(f"producer ids cannot end at {facts.producer_ids_end!r}")


def _check_configs(configs: Mapping[str, Any]) -> None:
    for name, value in configs.items():
        if not isinstance(value, str):
            raise TypeError(f"setting {name} has the value {value!r}, which is not a string")


def _from_folders(
    disk: Disk, root: str, folders: Sequence[TopicPartition], new_id: Callable[[], UUID]
) -> Facts:
    """Rebuild the topics from their folders, each with the id that most of its partitions have.
    Settings cannot be recovered.
    """
    ids: dict[str, Counter[UUID]] = {}
    counts: dict[str, int] = {}
    for key in folders:
        found = small_files.read_topic_id(disk, f"{root}/{key}")
        ids.setdefault(key.topic, Counter()).update([] if found is None else [found])
        counts[key.topic] = max(counts.get(key.topic, 0), key.partition + 1)
    properties = small_files.read_meta_properties(disk, root) or {}
    return Facts(
        cluster_id=properties.get("cluster.id") or topic_id_text(new_id()),
        topics={
            topic: TopicFacts(
                topic_id=ids[topic].most_common(1)[0][0] if ids[topic] else new_id(),
                partitions=count,
            )
            for topic, count in counts.items()
        },
    )
