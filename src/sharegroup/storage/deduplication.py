"""Deduplication at enqueue (topic config ``deduplication.window.ms``): a record whose message id
the partition has had within the window is not appended, and its producer is told where the first
record is.

* **A batch with some repeated records** is written without them, as the log cleaner would leave
  it: offsets, sequence numbers and codec stay, and there are holes. So a producer's other records
  have the offsets that it counts from the answer, and its sequence goes on over a restart.
* **A batch of nothing but repeated records** is not written, unless its producer is idempotent:
  then its header is written, which remembers the sequence.
* **Transactions**: an id in an open transaction belongs to its producer. Other producers are told
  to try again (NOT_ENOUGH_REPLICAS, as Kafka says of transactions that it cannot check yet), since
  nobody knows yet whether the record will be there. After a commit the id is taken, after an abort
  it is free.
* **Durability**: ids are written to ``.ids`` files some eight times in a window (``id_journal``),
  and the log itself has the ids since then (``id_recovery``). No append waits for a file of ids.
* **Memory**: at most DEDUPLICATION_IDS_MAX ids; beyond them the oldest are forgotten early.

Time is a clock that never goes back, so setting the machine's clock changes no window. A restart
counts by wall clock, and ids that are read from the log begin their window anew: a restart may
lengthen the window, and shortens it only if the machine's clock was set forward.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sharegroup.model.environment import Clock, DiskFile
from sharegroup.model.errors import NotEnoughReplicas
from sharegroup.model.log import Appended, Repeated
from sharegroup.records.id_table import SETTLED, IdTable
from sharegroup.records.message_ids import FoundIds
from sharegroup.records.walked_batches import WalkedBatches, ids_of, without_repeats
from sharegroup.storage.id_journal import IdJournal
from sharegroup.storage.unsynced_files import UnsyncedFiles
from sharegroup.wire.batch import BatchHeader, Buffer, parse_headers
from sharegroup.wire.markers import MarkerType, decode_marker, is_control, is_transactional

logger = logging.getLogger(__name__)

CHUNKS: Final = 8
"""Files in a window, at least: what a start reads from the log is an eighth of the window."""

CHUNK_MS_MIN: Final = 1000
"""The least time between two files, so that a short window does not write one for each batch."""

Append = Callable[[bytes, Sequence[BatchHeader]], Appended]


class _Decided(NamedTuple):
    """One batch of a record set."""

    header: BatchHeader
    ids: FoundIds
    firsts: array[int]
    """As ``IdTable.decide`` says."""
    gone: tuple[int, ...]
    """The index of each repeated record."""


class Deduplication:
    """See the module. One partition's."""

    def __init__(
        self, clock: Clock, table: IdTable, journal: IdJournal, window_ms: int, now_ms: int
    ) -> None:
        self.window_ms = window_ms
        self._clock = clock
        self._table = table
        self._journal = journal
        self._open: dict[int, int] = {}
        """Producer with an open transaction → the first offset with an id in it."""
        self._written_ms = now_ms
        self._written_mark = table.mark()
        self._ids_per_chunk = max(1, table.ids_max // CHUNKS)
        self._said_early = False
        self._said_failure = False

    @property
    def secret(self) -> bytes:
        """By which ids are hashed. See ``model.log.MessageIds``."""
        return self._journal.secret

    def __len__(self) -> int:
        return len(self._table)

    # Appending -------------------------------------------------------------------------------

    def repeated(self, batches: bytes, base_offset: int) -> tuple[tuple[int, ...], ...]:
        """Which records of each batch have been there; notes nothing.

        Raises:
            NotEnoughReplicas: an id is in another producer's open transaction.
        """
        mark = self._table.mark()
        try:
            decided = self._decide(batches, parse_headers(batches), base_offset)
        finally:
            self._table.undo(mark)
        return tuple(one.gone for one in decided)

    def append(
        self,
        batches: bytes,
        headers: Sequence[BatchHeader],
        where: int | Appended,
        append: Append,
    ) -> Appended:
        """Append what has not been there, by ``append``.

        Args:
            headers: as they were checked.
            where: the end of the log; or where the batch is, if this is a retry of an idempotent
                producer: then the answer is made again.

        Raises:
            NotEnoughReplicas: an id is in another producer's open transaction.
            KafkaError: what ``append`` raises; no id was noted then.
        """
        if isinstance(where, Appended):
            return self._answer_again(batches, headers, where)
        return self._append(batches, headers, where, append)

    def _append(
        self, batches: bytes, headers: Sequence[BatchHeader], base_offset: int, append: Append
    ) -> Appended:
        mark, early = self._table.mark(), self._table.early
        try:
            decided = self._decide(batches, headers, base_offset)
            appended = self._append_rest(batches, decided, base_offset, append)
        except BaseException:
            self._table.undo(mark)
            raise
        for one in decided:
            if is_transactional(one.header) and one.ids.found > len(one.gone):
                self._open.setdefault(one.header.producer_id, base_offset)
        forgotten = self._table.early - early
        if forgotten:
            self._say_early()
        return appended._replace(ids_forgotten=forgotten)

    def _answer_again(
        self, batches: bytes, headers: Sequence[BatchHeader], duplicate: Appended
    ) -> Appended:
        """The answer to an idempotent producer's retry, whose batch is in the log already: where
        each record is, as the first answer said it."""
        base = duplicate.base_offset
        ids = ids_of(batches, 0, headers[0], self.secret)
        firsts = self._table.look(ids, self._expired_ms())
        # An id whose window ended since then may have a later record by now.
        repeats = [Repeated(i, at) for i, at in enumerate(firsts) if 0 <= at < base + i]
        return _answer(duplicate, len(firsts), repeats)

    def ended(self, header: BatchHeader, batch: Buffer) -> None:
        """A producer's batch is in the log. If it is a marker, the transaction has ended."""
        producer_id = header.producer_id
        if producer_id not in self._open or not is_control(header):
            return
        marker = decode_marker(batch)
        if marker.type in (MarkerType.ABORT, MarkerType.COMMIT):
            first_offset = self._open.pop(producer_id)
            committed = marker.type == MarkerType.COMMIT
            self._table.settle(producer_id, first_offset, committed=committed)

    def replayed(self, header: BatchHeader, ids: FoundIds, now_ms: int) -> None:
        """The batch is in the log; used to read ids from it, on any thread."""
        owner = SETTLED
        if is_transactional(header):
            owner = header.producer_id
            self._open.setdefault(owner, header.base_offset)
        self._table.note(ids, header.base_offset, now_ms, now_ms - self.window_ms, owner)

    def _decide(
        self, batches: bytes, headers: Sequence[BatchHeader], base_offset: int
    ) -> list[_Decided]:
        decided = []
        now_ms = self._clock.monotonic_ms()
        for at, header in enumerate(headers):
            ids = ids_of(batches, at, header, self.secret)
            firsts = array("q", [-1]) * len(ids.has)
            if ids.found:
                owner = header.producer_id if is_transactional(header) else SETTLED
                found = self._table.decide(ids, base_offset, now_ms, now_ms - self.window_ms, owner)
                if found is None:
                    raise NotEnoughReplicas(
                        "a record has the message id of a record in another producer's open "
                        "transaction: send it again when that transaction has ended"
                    )
                firsts = found
            decided.append(_Decided(header, ids, firsts, _repeated_in(firsts)))
            base_offset += header.last_offset_delta + 1
        return decided

    def _append_rest(
        self, batches: bytes, decided: list[_Decided], base_offset: int, append: Append
    ) -> Appended:
        gone = tuple(one.gone for one in decided)
        headers = [one.header for one in decided]
        if not any(gone):
            return append(batches, headers)
        repeats, records = [], 0
        for one in decided:
            repeats += [Repeated(records + i, one.firsts[i]) for i in one.gone]
            records += len(one.firsts)
        if len(repeats) == records and headers[0].producer_id < 0:  # nothing remembers it
            nowhere = Appended(base_offset=-1, last_offset=-1)
            return _answer(nowhere, records, repeats)
        rest = None
        if isinstance(batches, WalkedBatches) and batches.prepared is not None:
            rest = batches.prepared.batches if batches.prepared.gone == gone else None
        if rest is None:
            rest = without_repeats(batches, headers, [one.ids for one in decided], gone)
        made = zip(gone, parse_headers(rest), headers, strict=True)
        left = [new if some else checked for some, new, checked in made]
        return _answer(append(rest, left), records, repeats)

    # Keeping ---------------------------------------------------------------------------------

    def keep(self, stable_end: int, unsynced: UnsyncedFiles) -> None:
        """Write the ids below ``stable_end``, the last stable offset, to a file when it is time."""
        now_ms = self._clock.monotonic_ms()
        added = self._table.mark() - self._written_mark
        pause_ms = max(CHUNK_MS_MIN, self.window_ms // CHUNKS)
        if now_ms - self._written_ms < pause_ms and added < self._ids_per_chunk:
            return
        self._written_ms, self._written_mark = now_ms, self._table.mark()
        try:
            unsynced.add_side_files(self.write(stable_end))
        except OSError as error:  # the log has them all: only the next start reads more of it
            if not self._said_failure:
                logger.warning("message ids are not written, and stay in the log: %s", error)
            self._said_failure = True

    def write(self, stable_end: int) -> list[DiskFile]:
        """Write them now. The caller must sync and close the returned files. Raises OSError."""
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        self._journal.forget(wall_ms - self.window_ms, self._table.ids_max)
        first = self._journal.end_offset
        if stable_end <= first:
            return []
        rows = self._table.export(first, stable_end, wall_ms - now_ms)
        return [self._journal.write(rows, stable_end)]

    def remove(self) -> None:
        """The topic has no window any more: remove the files."""
        try:
            self._journal.remove()
        except OSError as error:
            logger.warning("message ids cannot be removed, and are not used: %s", error)

    def check_invariants(self) -> None:
        """Assert what ``id_table`` lists."""
        self._table.check_invariants()

    def _expired_ms(self) -> int:
        return self._clock.monotonic_ms() - self.window_ms

    def _say_early(self) -> None:
        if not self._said_early:
            logger.warning(
                "message ids are forgotten before deduplication.window.ms is over: a partition "
                "remembers %d. Give the topic a shorter window or more partitions",
                self._table.ids_max,
            )
        self._said_early = True


def _repeated_in(firsts: array[int]) -> tuple[int, ...]:
    """The index of each repeated record; no loop for a batch without one, as most are."""
    if firsts.count(-1) == len(firsts):
        return ()
    return tuple(at for at, first in enumerate(firsts) if first >= 0)


def _answer(own: Appended, records: int, repeats: list[Repeated]) -> Appended:
    """The answer to a producer whose batch was written as ``own`` says, or not at all. If no record
    was new, its base offset is the offset at which the first record stands already."""
    last_offset = max([own.last_offset, *(repeat.offset for repeat in repeats)])
    base_offset = repeats[0].offset if len(repeats) == records else own.base_offset
    return own._replace(base_offset=base_offset, last_offset=last_offset, repeated=tuple(repeats))
