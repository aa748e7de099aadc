"""The requests of a transactional producer to its coordinator; ``core.transaction`` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sharegroup.client.admin.offset_requests import check_commits_ranges
from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.handed_over import HandedOver
from sharegroup.client.core.outbox import ProducerIdentity
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.transaction import ProducerTransactions, ProducerTransactionState
from sharegroup.client.network.cluster import GROUP, TRANSACTION, Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.producer.transactional_acks import (
    acknowledge_in_transaction,
    by_member,
)
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sharegroup.wire.messages.end_txn import EndTxnRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")

LANE: Final = "transactions"
FEATURE: Final = "transaction.version"
END_TXN_V1: Final = 4
TXN_OFFSET_COMMIT_V1: Final = 4
PRODUCE_V1: Final = 11
"""The last versions of these three requests that belong to transaction version 1 (KIP-890)."""
_FENCING = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_FATAL = (*_FENCING, errors.InvalidTxnState, errors.TransactionalIdAuthorizationFailed)

_UNFINISHED: Final = tuple(
    error.code
    for error in (
        errors.NotCoordinator,
        errors.CoordinatorNotAvailable,
        errors.RequestTimedOut,
        errors.UnknownServerError,
    )
)
"""Answers of a coordinator whose write may have come to its end nevertheless."""


class TransactionRequests:
    """See the module.

    Args:
        timeout_ms: the coordinator aborts a transaction that is open for longer.
        block_ms: how long to retry a request.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, timeout_ms: int, block_ms: int
    ) -> None:
        self.machine = ProducerTransactions()
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._block_ms = block_ms
        self._turn = asyncio.Lock()  # what joins a transaction is told before its end

    @property
    def transactional_id(self) -> str:
        """The name under which older producers are fenced."""
        return self._id

    @property
    def produce_version_max(self) -> int | None:
        """The newest version of Produce to use, because later ones add partitions to a transaction
        by themselves; None: any."""
        return PRODUCE_V1 if self.machine.adds_by_request else None

    async def identify(self) -> None:
        """InitProducerId: fences all older producers of this transactional id, and aborts the
        transaction that one of them may have left open.
        """
        machine = self.machine
        before = machine.identity
        request = InitProducerIdRequest(self._id, self._timeout_ms)
        if before is not None:
            request.producer_id, request.producer_epoch = before
        response = await self._ask(apis.INIT_PRODUCER_ID, lambda: request)
        node_id = await self._cluster.coordinator(self._id, TRANSACTION)
        connection = await self._cluster.connection(node_id, LANE)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        machine.identify(identity, 2 if connection.finalized.get(FEATURE, 0) >= 2 else 1)

    async def add_partitions(self) -> None:
        """AddPartitionsToTxn, for the partitions that must be added."""
        async with self._turn:
            if self.machine.to_add() and not self.machine.drops_records:
                await self._add_partitions()

    async def _add_partitions(self) -> None:
        wheres = self.machine.to_add()
        topics = [AddPartitionsToTxnTopic(name, own) for name, own in by_topic(wheres).items()]
        await self._add(
            apis.ADD_PARTITIONS_TO_TXN,
            lambda: AddPartitionsToTxnRequest([], self._id, *self._identity(), topics),
            lambda response: [
                one.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ],
        )
        self.machine.added(wheres)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: MemberIdentity
    ) -> None:
        """AddOffsetsToTxn if the transaction's version needs it, and TxnOffsetCommit. Without
        offsets the broker is told nothing: it would not know of a transaction to end."""
        self.machine.check_open()
        if not offsets:
            return
        async with self._turn:
            self.machine.check_under_way()
            await self._send_offsets(offsets, member)

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: MemberIdentity
    ) -> None:
        machine = self.machine
        if any(offset.ranges for offset in offsets.values()):
            await check_commits_ranges(self._cluster, member.group_id)
        if machine.adds_by_request:
            await self._add(
                apis.ADD_OFFSETS_TO_TXN,
                lambda: AddOffsetsToTxnRequest(self._id, *self._identity(), member.group_id),
            )
        else:
            machine.touch()
        request = TxnOffsetCommitRequest(
            self._id,
            member.group_id,
            *self._identity(),
            member.generation_id,
            member.member_id,
            member.group_instance_id,
            [
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        _to_commit(index, offsets[TopicPartition(name, index)]) for index in own
                    ],
                )
                for name, own in by_topic(offsets).items()
            ],
        )

        async def attempt() -> None:
            response = await self._cluster.send_to_coordinator(
                member.group_id,
                apis.TXN_OFFSET_COMMIT,
                request,
                lane=LANE,
                version_max=TXN_OFFSET_COMMIT_V1 if machine.adds_by_request else None,
            )
            for topic in response.topics:
                for one in topic.partitions:
                    self._raise(one.error_code, member.group_id, GROUP)

        await self._trying(attempt)

    async def acknowledge(self, handed: Iterable[HandedOver]) -> None:
        """Let the transaction hold records of a share group, which its commit acknowledges. Where
        there are no records, the broker is told nothing.

        Raises:
            UnsupportedVersion: the broker cannot do that, or transactions have version 1.
            InvalidRecordState: the consumer has lost a record; the transaction can only be aborted.
        """
        async with self._turn:
            self.machine.check_under_way()
            await self._acknowledge(handed)

    async def _acknowledge(self, handed: Iterable[HandedOver]) -> None:
        machine = self.machine
        if machine.adds_by_request:
            error = errors.UnsupportedVersion(
                "acknowledging in a transaction needs transaction.version 2"
            )
            machine.failed(error)
            raise error
        for own in by_member(one for one in handed if one.ranges()):
            machine.touch()

            async def attempt(own: Sequence[HandedOver] = own) -> None:
                await acknowledge_in_transaction(
                    self._cluster, self._id, self._identity(), own, self._raise, LANE
                )

            await self._trying(attempt)
            for one in own:
                one.held()

    async def end(self, *, commit: bool) -> None:
        """EndTxn, if the coordinator knows of the transaction."""
        async with self._turn:
            await self._end(commit=commit)

    async def _end(self, *, commit: bool) -> None:
        machine = self.machine
        tell = machine.end(commit=commit)
        identity: ProducerIdentity | None = None
        if tell:
            aborts_v1 = machine.adds_by_request and not commit
            response = await self._ask(
                apis.END_TXN,
                lambda: EndTxnRequest(self._id, *self._identity(), commit),
                version_max=END_TXN_V1 if machine.adds_by_request else None,
                # There is none: what was to add something to it has not arrived.
                passes=errors.InvalidTxnState.code if aborts_v1 else errors.NONE,
            )
            if not machine.adds_by_request and response.producer_id >= 0:
                identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        if not tell or identity is not None or commit:
            machine.ended(identity or machine.identity, committed=commit)
            return
        await self.identify()  # version 1: a new epoch, as sequence numbers are unknown now
        machine.ended(machine.identity, committed=commit)

    # --- inside -----------------------------------------------------------------------------------

    def _identity(self) -> ProducerIdentity:
        assert self.machine.identity is not None, "the producer has no identity"
        return self.machine.identity

    async def _add(
        self,
        api: Api,
        request: Callable[[], Any],
        codes: Callable[[Any], Iterable[int]] = lambda _: [],
    ) -> None:
        """Add something to the transaction. Unless an answer refuses that, the coordinator may know
        of the transaction from now on, also when no answer comes.

        Args:
            codes: the error codes within an answer.
        """

        async def attempt() -> None:
            refused = False
            try:
                response = await self._send(api, request())
                code = next(filter(None, [response.error_code, *codes(response)]), errors.NONE)
                refused = code != errors.NONE and code not in _UNFINISHED
                self._raise(code)
            finally:
                if not refused:
                    self.machine.touch()

        await self._trying(attempt)

    async def _ask(
        self,
        api: Api,
        request: Callable[[], Any],
        *,
        version_max: int | None = None,
        passes: int = errors.NONE,
    ) -> Any:
        """The coordinator's answer. Transient errors are retried. ``passes``: an error code that is
        as good as success."""

        async def attempt() -> Any:
            response = await self._send(api, request(), version_max)
            if response.error_code != passes:
                self._raise(response.error_code)
            return response

        return await self._trying(attempt)

    async def _send(self, api: Api, request: Any, version_max: int | None = None) -> Any:
        return await self._cluster.send_to_coordinator(
            self._id, api, request, kind=TRANSACTION, lane=LANE, version_max=version_max
        )

    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        machine = self.machine
        try:
            return await retrying(
                self._cluster,
                attempt,
                self._block_ms,
                lambda error: error.retriable and machine.repeats_requests,
            )
        except _FATAL as error:
            machine.fenced(error)
            raise
        except errors.TransactionAbortable as error:
            machine.refused(error)
            raise
        except errors.KafkaError as error:
            if machine.state is ProducerTransactionState.ENDING:
                machine.fenced(error)  # whether the transaction was committed is not known
            else:
                machine.failed(error)
            raise

    def _raise(self, code: int, key: str | None = None, kind: int = TRANSACTION) -> None:
        if not code:
            return
        error = errors.error_from_code(code)
        if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
            self._cluster.forget_coordinator(key or self._id, kind)
        if isinstance(error, _FENCING):
            fenced = errors.ProducerFenced(
                f"a newer producer with transactional_id {self._id!r} runs"
            )
            fenced.source = error.source
            raise fenced
        raise error


def _to_commit(index: int, offset: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    number, leader_epoch, metadata, ranges = offset
    mine = [Range(*each) for each in ranges]
    return TxnOffsetCommitRequestPartition(index, number, leader_epoch, metadata, mine)
