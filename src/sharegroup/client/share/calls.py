"""What a share consumer's verbs call. The consumer on asyncio and the blocking one have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.commits import ShareCommits
from sharegroup.client.share.decisions import ConsumerDecisions
from sharegroup.client.share.life import ShareLife
from sharegroup.client.share.parts import ShareParts, share_parts
from sharegroup.client.share.polling import SharePolling
from sharegroup.client.share.settings import ShareConsumerSettings, checked_settings


@dataclass(frozen=True, slots=True)
class ShareCalls:
    """See the module."""

    parts: ShareParts
    life: ShareLife
    polling: SharePolling
    decisions: ConsumerDecisions
    commits: ShareCommits


def share_calls(
    topics: Iterable[str],
    group_id: str,
    settings: ShareConsumerSettings[Any, Any],
    cluster: Cluster | None = None,
) -> ShareCalls:
    """A new share consumer, with all its parts. Nothing connects yet.

    Args:
        topics: the subscription.
        cluster: connections to share with other clients; None: its own.

    Raises:
        ConfigError: a topic's name or a setting is invalid.
        TypeError: there is no setting of a name.
    """
    parts = share_parts(topics, checked_settings(group_id, settings), cluster)
    life = ShareLife(parts)
    return ShareCalls(
        parts,
        life,
        SharePolling(parts, life),
        ConsumerDecisions(parts, life),
        ShareCommits(parts, life),
    )
