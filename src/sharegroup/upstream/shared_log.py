"""A compacted topic of the cluster that every node reads all the time, and that every node may
write: nobody owns it, the order of the log decides, and the last record of a key counts.

Who has written something answers when it has read its own record. So two nodes that change one key
at a time agree who was last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.owned_batches import KeyValue
from sharegroup.upstream.raw_log import EARLIEST, LATEST, RawLog
from sharegroup.upstream.state_log import BATCH_BYTES_MAX, Record, Submitted
from sharegroup.wire.batch import decode_batch, encode_batch, parse_headers
from sharegroup.wire.markers import is_control

logger = logging.getLogger("sharegroup.broker")
T = TypeVar("T")

READ_BYTES: Final = 1 << 20
WAIT_MS: Final = 500
PAUSE_S: Final = 0.2
CLOSE_S: Final = 3.0
WRITES: Final = "-writes"
"""The end of the lane of writes: a read that waits does not hold them back."""


class SharedLog:
    """See the module.

    Args:
        lane: of the reads.
        take: called with each record, from the first call of :meth:`follow` on, in order, and with
            whether this node has written it.
    """

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        lane: str,
        wall_ms: Callable[[], int],
        take: Callable[[Record, bool], None],
    ) -> None:
        self.where = where
        self._cluster = cluster
        self._wall_ms = wall_ms
        self._take = take
        self._log = RawLog(cluster, where, lane)
        self._writes = RawLog(cluster, where, lane + WRITES)
        self._offset = 0
        self._waiting: dict[int, Submitted] = {}
        """Offset of the last record → who waits until it is read."""
        self._pending: Counter[bytes] = Counter()
        """How many records of a key were submitted here, and were not read yet."""
        self._looked = asyncio.Event()
        """Set for a moment after each look."""
        self._writing: asyncio.Task[None] | None = None
        self._together: list[Submitted] | None = None
        """What the next batch has so far, while another one is on its way; None: nothing."""
        self._together_bytes = 0
        self._following: asyncio.Task[None] | None = None

    @property
    def end(self) -> int:
        """Behind the last record that was read."""
        return self._offset

    def is_pending(self, key: bytes) -> bool:
        """Whether a record of this node is still to come: it will replace what is read now."""
        return self._pending[key] > 0

    async def read_all(self) -> AsyncIterator[Record]:
        """All records that are there now.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        if self._writing is not None:  # or a record of this node that is sent again would be missed
            await asyncio.wait([self._writing])
        # Not on the lane of the reader that follows: each answer would wait behind its long poll.
        offset = await self._retried(lambda: self._writes.offset(EARLIEST))
        end = await self._retried(lambda: self._writes.offset(LATEST))
        while offset < end:
            answer = await self._retried(partial(self._writes.read, offset, READ_BYTES))
            for record, after in _records(bytes(answer.records or b""), offset):
                offset = after
                if record is not None:
                    yield record
        self._offset = max(self._offset, offset)

    async def begin_at_end(self) -> None:
        """Read nothing of what is there now.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        self._offset = await self._retried(lambda: self._log.offset(LATEST))

    def follow(self) -> None:
        """Go on with what comes behind that."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name=f"follows {self.where}")

    async def read_to_end(self) -> None:
        """Return when all is read that was there at the call; :meth:`follow` reads.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        end = await self._retried(lambda: self._writes.offset(LATEST))
        while self._offset < end:
            await self._looked.wait()

    def submit(self, records: Sequence[KeyValue]) -> Submitted:
        """Append records after all that this node has submitted. One batch is on its way at a time,
        and the next one takes with it all that was submitted meanwhile."""
        one = Submitted(records)
        self._pending.update(key for key, _ in records)
        together = self._together
        if together is not None and self._together_bytes + one.size <= BATCH_BYTES_MAX:
            together.append(one)
            self._together_bytes += one.size
        else:
            self._together, self._together_bytes = [one], one.size
            self._writing = asyncio.create_task(self._write(self._writing, self._together))
        return one

    async def close(self) -> None:
        """Write what is under way, if the cluster takes it soon, and read no more."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_S)
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _write(self, before: asyncio.Task[None] | None, together: list[Submitted]) -> None:
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        if self._together is together:
            self._together = None
        records = [record for one in together for record in one.records]
        first = self._offset
        if records:
            batch = encode_batch(records, timestamp_ms=self._wall_ms())
            timeout_ms = self._cluster.request_timeout_ms
            try:
                first = await self._retried(lambda: self._writes.append(batch, timeout_ms))
            except errors.KafkaError as error:
                self._pending.subtract(key for key, _ in records)
                failure = errors.KafkaStorageError(f"{self.where} could not be written: {error}")
                for one in together:
                    one.failed(failure)
                return
        for one in together:
            if one.records:
                self._waiting[first + len(one.records) - 1] = one
            else:
                one.done(first)
            first += len(one.records)

    async def _follow(self) -> None:
        is_broken = False
        while True:
            try:
                await self._look()
                self._looked.set()
                self._looked.clear()
                is_broken = False
            except errors.KafkaError as error:
                logger.debug("%s cannot be read: %s", self.where, error)
                await asyncio.sleep(PAUSE_S)
            except IllegalState:  # this broker stops
                return
            except Exception:
                # Who follows must never end: this broker would hear no more of what others write.
                if not is_broken:
                    logger.exception("%s goes on at offset %d", self.where, self._offset)
                is_broken = True
                await asyncio.sleep(PAUSE_S)

    async def _look(self) -> None:
        try:
            answer = await self._log.read(self._offset, READ_BYTES, wait_ms=WAIT_MS)
        except errors.OffsetOutOfRange:
            self._offset = await self._log.offset(EARLIEST)
            return
        if self._writing is not None:  # or a record of this node would be taken for another's
            await asyncio.wait([self._writing])
        for record, after in _records(bytes(answer.records or b""), self._offset):
            own = record is not None and self._is_own(record[0])
            self._offset = after  # a record that cannot be taken in is not read again
            if record is not None:
                self._pending[record[1]] -= own
                self._take(record, own)
        for last in [last for last in self._waiting if last < self._offset]:
            one = self._waiting.pop(last)
            one.done(last - len(one.records) + 1)
        self._pending += Counter()  # drops keys with nothing

    def _is_own(self, offset: int) -> bool:
        return any(last - len(one.records) < offset <= last for last, one in self._waiting.items())

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await retrying(self._cluster, ask, self._cluster.request_timeout_ms)


def _records(data: bytes, offset: int) -> Sequence[tuple[Record | None, int]]:
    """The records from ``offset`` on, each with the offset at which to go on. None: of a batch
    without any."""
    found: list[tuple[Record | None, int]] = []
    position = 0
    for header in parse_headers(data):
        batch = memoryview(data)[position : position + header.length]
        position += header.length
        if header.last_offset < offset:
            continue
        if not is_control(header):
            found += [
                ((at, key, value), at + 1)
                for at, _, key, value in decode_batch(batch)
                if at >= offset and key is not None
            ]
        found.append((None, header.last_offset + 1))
    return found
