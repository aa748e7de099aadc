"""What an answer leaves out for a client that may not see it, as Apache Kafka does."""

from __future__ import annotations

from typing import Final

from sharegroup.model.errors import TopicAuthorizationFailed
from sharegroup.wire.messages.create_topics import CreatableTopicResult

HIDDEN_TOPIC: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
"""Why a group is not described (Kafka class GroupCoordinatorService)."""


def hide_configs(made: CreatableTopicResult) -> None:
    """Leave out what only clients with the right to describe a topic's configs may see."""
    made.topic_config_error_code = TopicAuthorizationFailed.code
    made.num_partitions = made.replication_factor = -1
    made.configs = []
