"""The topics as membership sees them: an image that the caller takes of its catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID


class KnownTopic(NamedTuple):
    """A topic as it is now."""

    topic_id: UUID
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics by name at one moment. The caller makes a new one when a topic is created, grown
    or deleted.
    """

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)

    def get(self, name: str) -> KnownTopic | None:
        """The topic of that name, or None if there is no such topic."""
        return self.topics.get(name)

    def ids(self, names: Iterable[str]) -> dict[UUID, str]:
        """The names among ``names`` that have a topic, by the topic's id."""
        return {
            info.topic_id: name for name in names if (info := self.topics.get(name)) is not None
        }


def metadata_hash(names: Iterable[str], topics: TopicsImage) -> int:
    """A signed 64-bit digest of the topics that a group subscribes to: it changes when one of these
    topics changes.

    0 where there are no topics, as in Kafka. Covers name, id and partition count, not racks: a
    partition of ours has one replica. The hash function is not Kafka's. A Kafka broker that takes
    over the records computes another digest and so bumps the group epoch once.
    """
    found = [(name, info) for name in sorted(set(names)) if (info := topics.get(name)) is not None]
    if not found:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, info in found:
        digest.update(f"{name}\0{info.topic_id.hex}\0{info.partition_count}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
