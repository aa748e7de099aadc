"""Identities: topics, partitions, share partitions.

Users know a topic by its name. Its id belongs to one topic only: a topic that is deleted and
created again under the same name gets another id. State is keyed by the id.
"""

from __future__ import annotations

import base64
from typing import NamedTuple
from uuid import UUID

NULL_TOPIC_ID = UUID(int=0)


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition of a topic, by id."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{topic_id_text(self.topic_id)}-{self.partition}"


class SharePartitionKey(NamedTuple):
    """One share partition: what one share group has of one partition (KIP-932, "Share
    partition")."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """The coordinator key text, ``group:topicId:partition`` (Kafka class SharePartitionKey)."""
        return f"{self.group_id}:{topic_id_text(self.topic_id)}:{self.partition}"


def topic_id_text(topic_id: UUID) -> str:
    """Kafka's text of a topic id: url-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def parse_topic_id(text: str) -> UUID:
    """The topic id written as ``text`` by :func:`topic_id_text`.

    Raises:
        ValueError: the text is not 16 bytes in url-safe base64.
    """
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(
            f"{text!r} is not a topic id: 22 characters of url-safe base64 are expected"
        )
    return UUID(bytes=raw)
