"""What a consumer's verbs call. The consumer on asyncio, the blocking one and a pool have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from sharegroup.client.core.record import K, V
from sharegroup.client.group.life import Life
from sharegroup.client.group.offsets import ConsumerOffsets
from sharegroup.client.group.parts import ConsumerParts, consumer_parts
from sharegroup.client.group.polling import Polling
from sharegroup.client.group.settings import ConsumerSettings, checked_settings
from sharegroup.client.group.subscription import ConsumerSubscription
from sharegroup.client.network.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ConsumerCalls(Generic[K, V]):
    """See the module."""

    parts: ConsumerParts
    subscription: ConsumerSubscription
    life: Life
    polling: Polling[K, V]
    offsets: ConsumerOffsets


def consumer_calls(
    topics: tuple[str, ...],
    settings: ConsumerSettings[K, V],
    cluster: Cluster | None = None,
) -> ConsumerCalls[K, V]:
    """A new consumer, with all its parts.

    Args:
        cluster: connections that others use too; None: make some.

    Raises:
        ConfigError: a setting is wrong.
        TypeError: there is no such setting.
    """
    parts = consumer_parts(checked_settings(settings), cluster)
    subscription = ConsumerSubscription(parts, topics)
    life = Life(parts, subscription)
    polling: Polling[K, V] = Polling(parts, subscription, life)
    return ConsumerCalls(parts, subscription, life, polling, ConsumerOffsets(parts, life, polling))
