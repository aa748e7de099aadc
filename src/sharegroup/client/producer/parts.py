"""The parts of a producer, which the one on asyncio and the blocking one have alike.

No part has a reference to the producer: a producer that nobody holds any more must be noticed at
once, and not when Python next looks for cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.buffer import ProduceBuffer
from sharegroup.client.producer.sender import ProduceSender
from sharegroup.client.producer.settings import CheckedProducerSettings
from sharegroup.client.producer.starting import ProducerStart
from sharegroup.client.producer.transactions import TransactionRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerParts:
    """See the module. ``transactions`` is None without a transactional id; other clients use the
    cluster too unless ``owns_cluster``."""

    settings: CheckedProducerSettings
    cluster: Cluster
    owns_cluster: bool
    buffer: ProduceBuffer
    sender: ProduceSender
    starting: ProducerStart
    transactions: TransactionRequests | None

    def own_transactions(self) -> TransactionRequests:
        """The requests about transactions. Raises IllegalState: there is no transactional id."""
        if self.transactions is None:
            raise IllegalState("transactions need a transactional_id")
        return self.transactions


def producer_parts(
    bootstrap_servers: str | Iterable[str],
    settings: CheckedProducerSettings,
    shared: Cluster | None = None,
) -> ProducerParts:
    """The parts, wired. ``shared``: connections to use in the place of own ones."""
    cluster = shared or Cluster(
        bootstrap_servers,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        security=settings.security,
        jitter=settings.jitter,
    )
    buffer = ProduceBuffer(cluster, settings)
    transactions = None
    if settings.transactional_id is not None:
        transactions = TransactionRequests(
            cluster,
            settings.transactional_id,
            settings.transaction_timeout_ms,
            settings.max_block_ms,
        )
    sender = ProduceSender(
        cluster,
        acks=-1 if settings.acks == "all" else 1,
        linger_s=settings.linger_ms / 1000,
        max_request_size=settings.max_request_size,
        on_done=buffer.done,
        transactions=transactions,
    )
    starting = ProducerStart(cluster, transactions, sender)
    buffer.sender = sender
    buffer.connect = starting.done
    return ProducerParts(
        settings=settings,
        cluster=cluster,
        owns_cluster=shared is None,
        buffer=buffer,
        sender=sender,
        starting=starting,
        transactions=transactions,
    )
