"""The producer's background task: takes due batches from the outboxes, one request per broker,
and reads the answers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from sharegroup.client.core.access_errors import error_on
from sharegroup.client.core.outbox import IN_FLIGHT_MAX, Outbox, OutgoingBatch, ProducerIdentity
from sharegroup.client.core.retry import PausesByKey
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.client.producer.transactions import TransactionRequests
from sharegroup.model import errors
from sharegroup.wire.apis import INIT_PRODUCER_ID, PRODUCE
from sharegroup.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

log = logging.getLogger("sharegroup.client")

_TRANSACTION_TIMEOUT_MS: Final = 2**31 - 1
"""Ignored without a transactional id; Java's client sends this value."""
_TOO_LARGE: Final = (errors.MessageTooLarge, errors.RecordListTooLarge)
_KEY_SHOWN_MAX: Final = 40
_LOST_PLACE: Final = (errors.OutOfOrderSequenceNumber, errors.UnknownProducerId)


class ProduceSender:
    """See the module.

    Args:
        linger_s: the age, in seconds, at which a batch is sent although it is not full.
        transactions: of a transactional producer; batches are sent within its transactions.
        on_done: called with each batch that was delivered or has failed for good; its outcome is
            set.

    Attributes:
        flushing: the number of callers that wait for all batches; meanwhile nothing lingers.
        pressed: records wait for room in the buffer; then nothing lingers either.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int,
        linger_s: float,
        max_request_size: int,
        on_done: Callable[[OutgoingBatch, errors.SharegroupError | None], None],
        transactions: TransactionRequests | None = None,
    ) -> None:
        self._transactions = transactions
        self._adding: asyncio.Task[None] | None = None
        self._cluster = cluster
        self._acks = acks
        self._linger_s = linger_s
        self._max_request_size = max_request_size
        self._on_done = on_done
        self._outboxes: dict[Outbox, None] = {}  # outboxes with batches, in turn
        self._pauses = PausesByKey[Outbox](cluster.pauses)
        self._under_way: Counter[int] = Counter()
        self._requests: set[asyncio.Task[None]] = set()
        self._identity: ProducerIdentity | None = None
        self._identifying: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self.flushing = 0
        self.pressed = False
        self._reasons: dict[Outbox, errors.KafkaError] = {}  # why an outbox pauses
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="producer")

    async def stop(self, error: errors.KafkaError) -> None:
        """Stop. Batches not delivered yet fail with this error."""
        own = (self._task, self._identifying, self._adding, *self._requests)
        tasks = [task for task in own if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for outbox in list(self._outboxes):
            for batch in list(outbox):
                self.complete(batch, error)
        self._outboxes.clear()

    def add(self, outbox: Outbox) -> None:
        """There is a new batch in this outbox."""
        self._outboxes[outbox] = None
        self._woken.set()

    def press(self) -> None:
        """Records wait for room: send the batches that linger."""
        self.pressed = True
        self._woken.set()

    async def all_through(self) -> list[OutgoingBatch]:
        """Wait until all present batches are delivered or have failed; see ``flushing``. Returns
        them, and instead of a batch that was split its parts."""
        batches = [batch for outbox in self._outboxes for batch in outbox]
        self._woken.set()
        through: list[OutgoingBatch] = []
        while batches:
            await asyncio.wait([batch.outcome for batch in batches])
            through += [batch for batch in batches if not batch.parts]
            batches = [part for batch in batches for part in batch.parts]
        return through

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = self._send_due(loop.time())
            timer = None if due_s is None else loop.call_at(due_s, self._woken.set)
            await self._woken.wait()
            self._woken.clear()
            if timer is not None:
                timer.cancel()

    def _send_due(self, now_s: float) -> float | None:
        """Send all due batches. Returns when the next one is due."""
        self._cluster.refresh_when_old()
        linger_s = 0.0 if self.flushing or self.pressed else self._linger_s
        requests: dict[int, list[tuple[Outbox, OutgoingBatch]]] = {}
        sizes: Counter[int] = Counter()
        later: list[float] = []
        for outbox in list(self._outboxes):
            self._expire(outbox, now_s)
            self._drop_refused(outbox)
            if not outbox:
                del self._outboxes[outbox]
                self._pauses.reset(outbox)
                self._reasons.pop(outbox, None)
                continue
            due_s = outbox.due_s(linger_s)
            if due_s is None:
                continue
            if due_s > now_s:
                later.append(due_s)
                continue
            node_id = self._ready_node(outbox)
            if node_id is None:
                later.append(now_s + 1.0)  # look for expired batches, should nothing else wake us
                continue
            batch = outbox.take()
            if sizes[node_id] and sizes[node_id] + batch.size > self._max_request_size:
                self._send(node_id, requests.pop(node_id))
                sizes[node_id] = 0
            sizes[node_id] += batch.size
            requests.setdefault(node_id, []).append((outbox, batch))
            self._woken.set()  # the outbox may have another batch
        for node_id, batches in requests.items():
            self._send(node_id, batches)
        return min(later, default=None)

    def _ready_node(self, outbox: Outbox) -> int | None:
        """The leader's node id, if a request can be sent there now. None: something is missing
        (an identity, the leader), and was asked for."""
        if self._transactions is not None and not self._belongs(self._transactions, outbox):
            return None
        if outbox.needs_identity:
            self._identify(outbox)
            if outbox.needs_identity:
                return None
        topic = self._cluster.metadata.topics.get(outbox.where.topic)
        partitions = topic.partitions if topic is not None else ()
        known = outbox.where.partition < len(partitions)
        leader = partitions[outbox.where.partition].leader if known else None
        if leader is None or leader not in self._cluster.metadata.nodes:
            self._pause(outbox, errors.LeaderNotAvailable(f"{outbox.where} has no leader"))
            self._begin(self._refresh())
            return None
        return leader if self._under_way[leader] < IN_FLIGHT_MAX else None

    def _expire(self, outbox: Outbox, now_s: float) -> None:
        for batch in outbox.expire(now_s):
            reason = self._reasons.get(outbox)
            why = f": {reason}" if reason is not None else ""
            text = f"a record for {batch.where} was not delivered in time{why}"
            self.complete(batch, errors.RequestTimedOut(text))

    # --- transactions -----------------------------------------------------------------------------

    def _belongs(self, transactions: TransactionRequests, outbox: Outbox) -> bool:
        """Records may be sent to the outbox's partition: it is part of the open transaction."""
        machine = transactions.machine
        self._identity = machine.identity
        if machine.may_send(outbox.where):
            return True
        if machine.to_add() and self._adding is None and not machine.drops_records:
            self._adding = asyncio.create_task(self._add_partitions(transactions))
        return False

    async def _add_partitions(self, transactions: TransactionRequests) -> None:
        try:
            await transactions.add_partitions()
        except errors.KafkaError as error:
            log.debug("partitions were not added to the transaction: %s", error)
        finally:
            self._adding = None
            self._woken.set()

    def _drop_refused(self, outbox: Outbox) -> None:
        """Fail the batches of a transaction that cannot be committed."""
        if self._transactions is None or not self._transactions.machine.drops_records:
            return
        error = self._transactions.machine.error
        for batch in outbox.expire(math.inf):
            self.complete(batch, error)

    def drop(self) -> None:
        """Look at once for batches that are not to be sent any more."""
        self._woken.set()

    # --- one request ------------------------------------------------------------------------------

    def _send(self, node_id: int, batches: list[tuple[Outbox, OutgoingBatch]]) -> None:
        self._under_way[node_id] += 1
        self._begin(self._request(node_id, batches))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _ask(
        self, node_id: int, batches: list[tuple[Outbox, OutgoingBatch]]
    ) -> Mapping[tuple[str, int], PartitionProduceResponse]:
        """Send the batches. Returns the answers, by topic and partition."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for outbox, batch in batches:
            data = PartitionProduceData(
                batch.where.partition, bytes(batch.encoded(outbox.identity))
            )
            topics.setdefault(batch.where.topic, []).append(data)
        transactions = self._transactions
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.transactional_id,
            acks=self._acks,
            timeout_ms=self._cluster.request_timeout_ms,
            topic_data=[TopicProduceData(name, partition_data=p) for name, p in topics.items()],
        )
        response: ProduceResponse = await self._cluster.send(
            node_id,
            PRODUCE,
            request,
            version_max=None if transactions is None else transactions.produce_version_max,
        )
        return {(t.name, p.index): p for t in response.responses for p in t.partition_responses}

    async def _request(self, node_id: int, batches: list[tuple[Outbox, OutgoingBatch]]) -> None:
        answers: Mapping[tuple[str, int], PartitionProduceResponse] = {}
        error: errors.SharegroupError = errors.RequestTimedOut(
            "the broker did not answer for this partition"
        )
        try:
            answers = await self._ask(node_id, batches)
        except Exception as failure:  # noqa: BLE001  # no record may be left without an outcome
            error = as_failure(failure)
        finally:
            self._under_way[node_id] -= 1
            self._woken.set()
        for outbox, batch in batches:
            answer = answers.get(batch.where)
            if answer is None:
                self._failed(outbox, batch, error)
            elif answer.error_code:
                topic = f"topic {batch.where.topic!r}"
                error = error_on(answer.error_code, answer.error_message, "WRITE", topic)
                self._failed(outbox, batch, error)
            else:
                outbox.succeeded(batch)
                self._recovered(outbox)
                repeated = {each.batch_index: each.offset for each in answer.repeated}
                times = answer.log_append_time_ms
                self.complete(batch, None, answer.base_offset, times, repeated)

    def _failed(self, outbox: Outbox, batch: OutgoingBatch, error: errors.SharegroupError) -> None:
        if isinstance(
            error, errors.DuplicateSequenceNumber
        ):  # in the log; the broker forgot its offset
            outbox.succeeded(batch)
            self.complete(batch, None)
        elif isinstance(error, _LOST_PLACE) and (
            self._transactions is None or outbox.follows_another(batch)
        ):
            outbox.out_of_order(batch)
        elif isinstance(error, errors.RetriableError):
            outbox.failed(batch)
            self._pause(outbox, error)
            self._begin(self._refresh())
        elif isinstance(error, _TOO_LARGE) and batch.count > 1:
            self._split(outbox, batch, error)
        else:
            if isinstance(error, _TOO_LARGE):
                error = _too_large(batch, error)
            outbox.gave_up(batch)
            self.complete(batch, error)

    def _split(self, outbox: Outbox, batch: OutgoingBatch, error: errors.KafkaError) -> None:
        parts = outbox.split(batch)
        log.info("sending a batch again in %d parts: %s", len(parts), error)
        batch.release()
        batch.outcome.set_result(None)  # deliveries that are awaited go on to their parts

    def complete(
        self,
        batch: OutgoingBatch,
        error: errors.SharegroupError | None,
        base_offset: int = -1,
        append_time_ms: int = -1,
        repeated: Mapping[int, int] | None = None,
    ) -> None:
        """Set the outcome of a batch. ``repeated``: index and offset of records that were there."""
        if error is not None and self._transactions is not None:
            self._transactions.machine.failed(error)
        batch.release()
        if not batch.outcome.done():
            if error is None:
                batch.outcome.set_result((base_offset, append_time_ms, repeated))
            else:
                batch.outcome.set_exception(error)
                batch.outcome.exception()  # flush() raises the error if nobody awaits it
        self._on_done(batch, error)

    def _pause(self, outbox: Outbox, error: errors.KafkaError) -> None:
        """Pause the outbox after an error. The first of several pauses is logged."""
        if not self._pauses:
            log.warning("retrying to send records for %s: %s", outbox.where, error)
        self._reasons[outbox] = error
        pause_s = self._pauses.next_ms(outbox) / 1000
        outbox.not_before_s = asyncio.get_running_loop().time() + pause_s

    def _recovered(self, outbox: Outbox) -> None:
        if self._pauses.reset(outbox):
            del self._reasons[outbox]
            if not self._pauses:
                log.warning(
                    "records for %s and all other partitions are accepted again", outbox.where
                )

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except errors.KafkaError as error:
            log.debug("no metadata: %s", error)
        self._woken.set()

    # --- identity ---------------------------------------------------------------------------------

    def _identify(self, outbox: Outbox) -> None:
        """Give the outbox the producer's identity. If there is none yet, or the outbox has spent
        it, ask for a new one.
        """
        if self._identity is not None and self._identity != outbox.spent:
            outbox.identify(self._identity)
        elif self._transactions is None and self._identifying is None:
            self._identifying = asyncio.create_task(self._ask_identity())

    async def _ask_identity(self) -> None:
        def on_retry(error: errors.KafkaError, failures: int) -> None:
            if failures == 1:
                log.warning("no producer id yet, retrying: %s", error)

        try:
            response = await retrying(
                self._cluster, self._init_producer_id, math.inf, on_retry=on_retry
            )
        except errors.KafkaError as error:
            self._fail_unidentified(error)
            return
        finally:
            self._identifying = None
            self._woken.set()
        self._identity = ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _init_producer_id(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        response: InitProducerIdResponse = await self._cluster.send_to_any(
            INIT_PRODUCER_ID, request
        )
        if response.error_code:
            raise error_on(response.error_code, None, "IDEMPOTENT_WRITE", "the cluster")
        return response

    def _fail_unidentified(self, error: errors.KafkaError) -> None:
        for outbox in list(self._outboxes):
            if outbox.needs_identity:
                for batch in outbox.expire(math.inf):
                    self.complete(batch, error)


def as_failure(error: Exception) -> errors.SharegroupError:
    """The outcome of a record that cannot be sent because of this error, which may be one that
    nobody expected."""
    if isinstance(error, errors.SharegroupError):
        return error
    failure = errors.SharegroupError(f"the record cannot be sent: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _too_large(batch: OutgoingBatch, error: errors.KafkaError) -> errors.KafkaError:
    """The error of a batch of one record; its text names the record by its key."""
    [(_, _, key, _, _)] = batch.records()
    named = "without a key" if key is None else f"with the key {key[:_KEY_SHOWN_MAX]!r}"
    text = f"the record for {batch.where} {named} is too large, even alone: {error}"
    return errors.error_from_code(error.code, text)
