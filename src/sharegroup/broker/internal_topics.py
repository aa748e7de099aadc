"""The names of the internal topics, and the settings that the broker gives them."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.broker import BrokerConfig

SHARE_GROUP_STATE: Final = "__share_group_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INDIVIDUAL_COMMITS: Final = "__individual_commit_offsets"
SECURITY: Final = "__sharegroup_security"
"""SCRAM credentials, ACLs and quotas."""
INTERNAL_TOPICS: Final = frozenset(
    {SHARE_GROUP_STATE, CONSUMER_OFFSETS, TRANSACTION_STATE, INDIVIDUAL_COMMITS, SECURITY}
)
CLUSTER_METADATA: Final = "__cluster_metadata"
"""Kafka's log of its controllers, which nobody may make."""
IN_CLUSTER_PREFIX: Final = "__sharegroup_fleet_"
"""How the topics begin in which brokers in front of a cluster keep their state there. A cluster
refuses what clients write to ``__share_group_state`` and its like."""
HIDDEN_TOPICS: Final = frozenset({SECURITY})
"""Topics with secrets: no request finds them."""


def internal_settings(name: str, config: BrokerConfig) -> dict[str, str]:
    """The broker's settings for an internal topic, as in Kafka. Segments may be smaller than a
    client may set for its own topics."""
    if name == CONSUMER_OFFSETS:
        return {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
        }
    if name == INDIVIDUAL_COMMITS:
        return {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(config.integer("individual.commit.log.segment.bytes")),
            # Each range soon gets a null record, and only the broker reads the log, at its start:
            # so null records need not stay.
            "delete.retention.ms": "0",
        }
    if name == SECURITY:
        return {"cleanup.policy": "compact"}
    if name == TRANSACTION_STATE:
        return {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
        }
    # Records of the state topic are deleted by offset (pruning), never by age or size.
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "internal.segment.bytes": str(
            config.integer("share.coordinator.state.topic.segment.bytes")
        ),
    }
