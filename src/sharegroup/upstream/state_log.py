"""One partition of a topic in the cluster that keeps our state, written by one owner at a time.

**Claim, read, write.** :meth:`StateLog.claim` reads what counts and becomes the owner
(``fleet/terms.py`` has the rule). Then :meth:`StateLog.submit` takes records; one batch is on its
way at a time, and takes with it all that was submitted meanwhile. A batch that gets no answer is
sent again with its sequence number, so the cluster appends it once.

**An answer is safe when nobody wrote in between**: offsets of the log are dense. If something came
in between, it is read first. If another owner's claim is in there, or the cluster refuses our
producer, all that is submitted fails until the next claim.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import TRANSACTION, Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.fleet.terms import LogMovedBack, OwnedTail, Owner, Terms
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.owned_batches import (
    RELEASE_KEY,
    KeyValue,
    OwnedBatch,
    Writer,
    batches_in,
    encode,
)
from sharegroup.upstream.raw_log import EARLIEST, LATEST, RawLog
from sharegroup.wire import apis
from sharegroup.wire.batch import Value
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest

logger = logging.getLogger("sharegroup.broker")
T = TypeVar("T")

LANE: Final = "state"
READ_BYTES: Final = 4 << 20
BATCH_BYTES_MAX: Final = 900_000
"""About how large a batch may become by what is submitted while another one is on its way."""
RECORD_BYTES: Final = 20
"""About what a record takes beside its key and value."""
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""No transaction is ever begun."""
SEQUENCES: Final = 1 << 31

Record = tuple[int, bytes, bytes | None]
"""Offset, key, value."""


class Submitted:
    """Records on their way into the log; a ticket of ``broker/coordination/log.py``.

    Without records it stands for all that was submitted before.
    """

    __slots__ = ("_first", "records", "size")

    def __init__(self, records: Sequence[KeyValue]) -> None:
        self.records = records
        self.size = sum(RECORD_BYTES + len(key) + _length(value) for key, value in records)
        self._first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._first.add_done_callback(_seen)

    async def durable(self) -> int:
        """The offset of the first record, once all are durable.

        Raises:
            KafkaStorageError: they will never be durable, or not under this owner.
        """
        return await asyncio.shield(self._first)

    def done(self, first: int) -> None:
        """They are durable."""
        if not self._first.done():
            self._first.set_result(first)

    def failed(self, error: errors.KafkaError) -> None:
        """They will not be."""
        if not self._first.done():
            self._first.set_exception(error)


def _length(value: Value | None) -> int:
    if value is None:
        return 0
    return len(value) if isinstance(value, bytes) else sum(map(len, value))


def _seen(future: asyncio.Future[int]) -> None:
    """Nobody need wait for it: an error is no news to the loop then."""
    if not future.cancelled():
        future.exception()


class StateLog:
    """See the module.

    Args:
        name: the name under which its owners' producers fence one another.
        me: node id and incarnation, as its batches say.
        wall_ms: milliseconds since 1970.

    Attributes:
        start: where the log begins, as far as this process knows.
    """

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        name: str,
        me: tuple[int, bytes],
        wall_ms: Callable[[], int],
    ) -> None:
        self.where = where
        self.start = 0
        self._cluster = cluster
        self._log = RawLog(cluster, where, LANE)
        self._name = name
        self._me = me
        self._wall_ms = wall_ms
        self._terms = Terms()
        self._begins: list[int] = []
        self._tail = OwnedTail(0, [])
        self._owner: Owner | None = None
        self._writer = Writer(-1, -1)
        self._sequence = 0
        self._queue: deque[Submitted] = deque()
        self._sending: asyncio.Task[None] | None = None

    @property
    def end(self) -> int:
        """The offset after the last batch of ours that is durable."""
        return self._tail.end

    @property
    def term(self) -> int | None:
        """Our term; None: we are not the owner."""
        return None if self._owner is None else self._owner.term

    # --- becoming the owner -----------------------------------------------------------------------

    async def claim(self) -> AsyncIterator[Record]:
        """Become the owner. Yields the records that count, in order; when it ends, this process is
        the owner, and has read all that its predecessors have answered.

        Raises:
            KafkaError: the cluster cannot be asked, or refuses.
        """
        self._fail(errors.KafkaStorageError(f"{self.where} is being claimed"))
        self._terms, self._begins = Terms(), []
        self._writer, self._sequence = await self._identified(), 0
        self.start = offset = await self._retried(lambda: self._log.offset(EARLIEST))
        while True:
            end = await self._retried(lambda: self._log.offset(LATEST))
            async for record in self._read(offset, end):
                yield record
            owner = Owner(self._terms.next, *self._me)
            first = await self._append(encode(owner, (), *self._next(1)))
            async for record in self._read(end, first):
                yield record
            offset = first + 1
            if self._terms.counts(owner):
                break
        self._tail = OwnedTail(first + 1, [*self._begins, first])
        self._owner = owner

    async def _identified(self) -> Writer:
        request = InitProducerIdRequest(self._name, TRANSACTION_TIMEOUT_MS)

        async def ask() -> Writer:
            answer = await self._cluster.send_to_coordinator(
                self._name, apis.INIT_PRODUCER_ID, request, kind=TRANSACTION, lane=LANE
            )
            if answer.error_code:
                error = errors.error_from_code(answer.error_code)
                if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
                    self._cluster.forget_coordinator(self._name, TRANSACTION)
                raise error
            return Writer(answer.producer_id, answer.producer_epoch)

        return await self._retried(ask)

    async def _read(self, offset: int, end: int) -> AsyncIterator[Record]:
        """The records that count from ``offset`` to before ``end``."""
        while offset < end:
            begin = offset
            answer = await self._retried(partial(self._log.read, begin, READ_BYTES))
            for batch in batches_in(bytes(answer.records or b"")):
                if batch.base_offset >= end:
                    break
                if batch.end_offset <= offset:
                    continue
                offset = batch.end_offset
                if self._counts(batch):
                    for record in batch.records:
                        yield record
            if offset == begin:
                raise errors.KafkaStorageError(f"{self.where} has nothing at offset {begin}")

    def _counts(self, batch: OwnedBatch) -> bool:
        counts = batch.owner is not None and self._terms.counts(batch.owner)
        if counts and (not self._begins or batch.base_offset > self._begins[-1]):
            self._begins.append(batch.base_offset)
        return counts

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await retrying(self._cluster, ask, self._cluster.request_timeout_ms)

    # --- writing ----------------------------------------------------------------------------------

    def submit(self, records: Sequence[KeyValue]) -> Submitted:
        """Append records after all that were submitted before.

        Raises:
            KafkaStorageError: this process is not the owner.
        """
        return self._queued(Submitted(records))

    def release(self) -> Submitted:
        """Append that this process needs the log no more: the next owner need not wait.

        Raises:
            KafkaStorageError: this process is not the owner.
        """
        return self._queued(Submitted([(RELEASE_KEY, b"")]))

    async def give_up(self) -> None:
        """Write what was submitted, and tell that the log is free. This process may claim it again:
        its fleet says so. If the log cannot be written, the next owner waits for longer."""
        try:
            await self.release().durable()
        except errors.KafkaError as error:
            logger.info("the next owner of %s waits: %s", self.where, error)
        self._fail(errors.NotCoordinator(f"another broker of the fleet has {self.where}"))

    def _queued(self, one: Submitted) -> Submitted:
        if self._owner is None:
            raise errors.KafkaStorageError(f"{self.where} has another owner, or none")
        if one.records or self._sending is not None:
            self._queue.append(one)
            if self._sending is None:
                self._sending = asyncio.create_task(self._send_all(), name=f"state {self.where}")
        else:
            one.done(self._tail.end)
        return one

    async def _send_all(self) -> None:
        """Send what is submitted, batch after batch."""
        try:
            while self._queue:
                await self._send_some()
        except (errors.KafkaError, LogMovedBack) as error:
            logger.error("%s is given up: %s", self.where, error)
            self._fail(errors.KafkaStorageError(f"{self.where} could not be written: {error}"))
        except IllegalState:  # this broker stops, and the cluster does not answer
            self._fail(errors.KafkaStorageError(f"{self.where} is closed"))
        finally:
            self._sending = None

    async def _send_some(self) -> None:
        assert self._owner is not None, "only an owner sends"
        some: list[Submitted] = []
        size = count = 0
        for one in self._queue:
            if count and size + one.size > BATCH_BYTES_MAX:
                break
            some.append(one)
            size, count = size + one.size, count + len(one.records)
        at = self._tail.end
        if count:
            records = [record for one in some for record in one.records]
            first = await self._append(encode(self._owner, records, *self._next(count + 1)))
            between = self._tail.appended(first, count + 1)
            if between is not None:
                await self._look(between.first, between.last + 1)
            at = first + 1
        for one in some:
            self._queue.popleft()
            one.done(at)
            at += len(one.records)

    async def _look(self, offset: int, end: int) -> None:
        """Somebody wrote in between: raise if it is the next owner."""
        async for _ in self._read(offset, end):
            continue
        if self._terms.owner != self._owner:
            raise errors.KafkaStorageError(f"node {self._terms.owner} has taken it over")

    def _next(self, records: int) -> tuple[Writer, int, int]:
        """Writer, sequence number and time for the next batch of so many records."""
        sequence = self._sequence
        self._sequence = (sequence + records) % SEQUENCES
        return self._writer, sequence, self._wall_ms()

    async def _append(self, batch: bytes) -> int:
        timeout_ms = self._cluster.request_timeout_ms
        try:
            return await retrying(
                self._cluster, lambda: self._log.append(batch, timeout_ms), timeout_ms
            )
        except (errors.InvalidProducerEpoch, errors.ProducerFenced) as error:
            raise errors.KafkaStorageError(f"another node has taken {self.where}") from error

    def _fail(self, error: errors.KafkaError) -> None:
        """Nothing is submitted any more."""
        self._owner = None
        while self._queue:
            self._queue.popleft().failed(error)

    async def close(self) -> None:
        """Send what was submitted, and submit no more."""
        if self._sending is not None:
            await self._sending
        self._fail(errors.KafkaStorageError(f"{self.where} is closed"))

    # --- keeping it short -------------------------------------------------------------------------

    async def delete_before(self, offset: int) -> int:
        """Delete what lies before an offset and is needed by nobody. Returns where the log begins
        now.

        Raises:
            KafkaError: the cluster refuses.
        """
        begin = self._tail.deletable(offset)
        if begin is not None and begin > self.start:
            self.start = await self._retried(lambda: self._log.delete_before(begin))
            self._tail.deleted(begin)
        return self.start
