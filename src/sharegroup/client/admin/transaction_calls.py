"""The admin client's calls about transactions and their producers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from sharegroup.client.admin import transaction_requests as requests
from sharegroup.client.admin.descriptions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from sharegroup.client.admin.each import of_each, or_first_error
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition

T = TypeVar("T")


class TransactionCalls(ABC):
    """See the module. The admin client sets the attributes."""

    _cluster: Cluster

    @abstractmethod
    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""

    async def list_transactions(
        self, *states: str, open_longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids in these states (``Ongoing``; by default, in any) whose last
        transaction began more than ``open_longer_than_ms`` ago (-1: at any time), sorted.
        """
        return await self._trying(
            lambda: requests.list_transactions(self._cluster, states, open_longer_than_ms)
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Transactional ids, with their last transaction.

        Raises:
            TransactionalIdNotFound: there is no such id.
        """

        async def describe(transactional_id: str) -> TransactionDescription:
            return await self._trying(
                lambda: requests.describe_transaction(self._cluster, transactional_id)
            )

        return or_first_error(await of_each(transactional_ids, describe))

    async def fence_producers(self, *transactional_ids: str) -> None:
        """Shut out the producers of these ids, and abort their open transactions. An id that does
        not exist is created.

        Raises:
            TransactionalIdAuthorizationFailed: the error of the first id that failed.
        """

        async def fence(transactional_id: str) -> None:
            await self._trying(lambda: requests.fence_producer(self._cluster, transactional_id))

        or_first_error(await of_each(transactional_ids, fence))

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that each partition knows, by id, with their open transactions. Needs READ
        on the topics.

        Raises:
            UnknownTopicOrPartition, TopicAuthorizationFailed: a partition cannot be asked about.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        return await self._trying(lambda: requests.describe_producers(self._cluster, wanted))

    async def abort_transaction(
        self,
        partition: tuple[str, int],
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Abort a transaction in one partition, whatever its coordinator knows: for a transaction
        that hangs there because its coordinator has forgotten it. Needs ALTER on the cluster.

        Raises:
            ClusterAuthorizationFailed, UnknownTopicOrPartition: the transaction was not aborted.
            InvalidProducerEpoch: the partition knows the producer with another epoch.
            TransactionCoordinatorFenced: the partition has heard of a later ``coordinator_epoch``.
        """
        where = TopicPartition(*partition)
        marker = (producer_id, producer_epoch, coordinator_epoch)
        await self._trying(lambda: requests.abort_transaction(self._cluster, where, *marker))
