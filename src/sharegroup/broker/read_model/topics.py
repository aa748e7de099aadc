"""Topics as they look now, and partitions by the names of their topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from sharegroup.broker.topics import Topic, Topics
from sharegroup.model.ids import TopicPartition
from sharegroup.model.store import LogFolder, Store


class TopicPartitionsView(NamedTuple):
    """Partitions of an existing topic."""

    topic_id: UUID
    topic: str
    partitions: tuple[int, ...]


def named(
    topics: Topics, partitions: Mapping[UUID, tuple[int, ...]]
) -> tuple[TopicPartitionsView, ...]:
    """``partitions`` with the names of their topics; deleted topics are left out."""
    names = ((topics.name_of(topic_id), topic_id) for topic_id in partitions)
    return tuple(
        TopicPartitionsView(topic_id, name, partitions[topic_id])
        for name, topic_id in names
        if name is not None
    )


class TopicViews:
    """The views of all topics of one broker."""

    def __init__(self, topics: Topics, store: Store) -> None:
        self._topics = topics
        self._store = store

    def all(self) -> Sequence[Topic]:
        """Every topic by name, internal ones included."""
        return self._topics.all()

    def folder(self) -> LogFolder:
        """The data folder: its room, and the bytes of each partition on disk, of topics that
        clients may see."""
        folder = self._store.log_folder()
        sizes = {key: size for key, size in folder.sizes.items() if self._shown(key)}
        return replace(folder, sizes=sizes)

    def _shown(self, key: TopicPartition) -> bool:
        return not self._topics.is_hidden(key.topic)
