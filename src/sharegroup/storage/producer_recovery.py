"""Recovers what a partition knows of its producers and their transactions (Kafka class
ProducerStateManager).

* **Aborted transactions**: each segment's ``.txnindex``, verified by the log. An index that the log
  contradicts is rebuilt. A damaged batch contradicts nothing: an entry whose marker or first batch
  is damaged is kept, because nothing else says any more that the transaction was aborted.
* **Producers**: the ``.snapshot`` of a clean end. Without one, or after a crash, the newest
  readable snapshot before the segments whose transaction index is rebuilt, and a replay of the
  headers after it. The replay also rebuilds these indexes, and ends a transaction whose abort
  marker is damaged if the old index lists it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from sharegroup.model.environment import Disk
from sharegroup.model.errors import CorruptMessage
from sharegroup.storage import producer_snapshot
from sharegroup.storage.damage import BrokenBatch
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.storage.log_contents import LogContents
from sharegroup.storage.producers import note
from sharegroup.storage.segment import TRANSACTION_INDEX, Segment
from sharegroup.transactions.ongoing import EndedTransaction
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header
from sharegroup.wire.markers import is_control, is_transactional

logger = logging.getLogger(__name__)


def load_transactions(
    segments: Sequence[Segment], unfinished: Collection[Segment], names: Sequence[str]
) -> list[Segment]:
    """Load the transaction indexes. Returns the segments whose index is bad, or is missing together
    with the other indexes: a segment without aborted transactions has only these. ``unfinished``:
    segments whose index may lack entries, or be torn, because of a crash.

    Bad and unfinished segments get the old entries that may be true; :func:`load_producers` takes
    over those that nothing else can tell.
    """
    bad = []
    present = set(names)
    for segment in segments:
        name = f"{segment.base_offset:020d}"
        if f"{name}{TRANSACTION_INDEX}" not in present:
            if segment not in unfinished and segment.size and f"{name}.index" not in present:
                bad.append(segment)
            continue
        try:
            segment.load_transactions()
            if segment not in unfinished:
                _check_markers(segment)
                continue
        except (CorruptMessage, ValueError) as error:
            logger.warning("%s is rebuilt: %s", segment.path + TRANSACTION_INDEX, error)
            if segment not in unfinished:
                bad.append(segment)
        entries = segment.transactions.entries
        possible = possible_entries(entries, segment.base_offset, segment.next_offset)
        segment.transactions = TransactionIndex(possible)
    return bad


def _check_markers(segment: Segment) -> None:
    """Verify a transaction index against the log: the marker of each entry, and the transaction's
    first batch if it lies in the segment.

    Raises:
        ValueError, CorruptMessage: an entry does not match the log.
    """
    before = segment.base_offset - 1
    for entry in segment.transactions.entries:
        if not before < entry.last_offset < segment.next_offset:
            raise ValueError(f"a marker at offset {entry.last_offset}")
        before = entry.last_offset
        producer_id = entry.producer_id
        if _contradicts(segment, entry.last_offset, producer_id, is_control):
            raise ValueError(f"no marker of producer {producer_id} at {entry.last_offset}")
        if not 0 <= entry.first_offset <= entry.last_offset:
            raise ValueError(f"a transaction that begins at offset {entry.first_offset}")
        # The cleaner removes the records of aborted transactions before their markers.
        if entry.first_offset >= max(
            segment.base_offset, segment.offsets.sparse_below
        ) and _contradicts(segment, entry.first_offset, producer_id, is_transactional):
            raise ValueError(f"no transaction begins at offset {entry.first_offset}")


def _contradicts(
    segment: Segment, offset: int, producer_id: int, is_kind: Callable[[BatchHeader], bool]
) -> bool:
    """Whether the log has another batch at ``offset`` than one of this producer and kind. A damaged
    batch says nothing.

    Raises:
        CorruptMessage: the log has no batch there.
    """
    try:
        position = segment.position_of(offset)
    except CorruptMessage:
        return False
    header = parse_header(segment.file.pread(HEADER_BYTES, position))
    if is_kind(header) and header.producer_id == producer_id:
        return False
    # No CRC was checked on the way: the batch itself may be what is wrong.
    return not segment.take_in(position, BrokenBatch(position, "it is not in its producer's index"))


def possible_entries(
    entries: Iterable[EndedTransaction], base_offset: int, end_offset: int
) -> list[EndedTransaction]:
    """The entries of a segment's index that can be true, in order of their markers."""
    possible = {
        entry.last_offset: entry
        for entry in entries
        if base_offset <= entry.last_offset < end_offset
        and 0 <= entry.first_offset < entry.last_offset
    }
    return [possible[offset] for offset in sorted(possible)]


def load_producers(
    disk: Disk,
    contents: LogContents,
    names: Sequence[str],
    stale: Collection[Segment],
    wall_ms: int,
    *,
    clean: bool,
) -> None:
    """Load the newest usable snapshot and replay the log after it. The replay also rebuilds the
    transaction indexes of ``stale`` segments: it begins at or before the first of them. A producer
    that is replayed counts as heard now: the times of its records may be old, and it may be about
    to repeat what was not answered.

    ``clean``: after a clean end. Its snapshot counts even where a replay was needed for an index:
    it also knows the markers and batches that have been damaged since.
    """
    end = contents.segments[-1].next_offset
    latest = min((segment.base_offset for segment in stale), default=end)
    last = f"{end:020d}.snapshot" if clean and stale else ""
    start = _load_snapshot(disk, contents, names, latest, last)
    for segment in contents.segments:
        if segment.next_offset > start:
            _replay(contents.producers, segment, start, wall_ms, indexed=segment not in stale)
    if last in names:
        _load(disk, f"{contents.folder}/{last}", contents.producers)


def _load_snapshot(
    disk: Disk, contents: LogContents, names: Sequence[str], latest: int, last: str
) -> int:
    """Load the newest readable snapshot at or before ``latest``, and remove snapshots that belong
    to no segment, except for ``last``. Returns the offset of the loaded snapshot, or 0.
    """
    bases = {segment.base_offset for segment in contents.segments}
    loaded = -1
    for name in sorted((name for name in names if name.endswith(".snapshot")), reverse=True):
        path = f"{contents.folder}/{name}"
        offset = int(name.removesuffix(".snapshot"))
        if loaded < 0 and offset <= latest:
            if not _load(disk, path, contents.producers):
                continue
            loaded = offset
        if offset not in bases and offset != loaded and name != last:
            disk.remove(path)
    return max(loaded, 0)


def _load(disk: Disk, path: str, producers: ProducerTable) -> bool:
    """Load a snapshot. Returns False if it cannot be used; it is removed then."""
    try:
        producers.load(producer_snapshot.decode(disk.read_file(path)))
    except (FileNotFoundError, ValueError) as error:
        logger.warning("%s is not used: %s", path, error)
        disk.remove(path)
        return False
    return True


def _replay(
    producers: ProducerTable, segment: Segment, start: int, wall_ms: int, *, indexed: bool
) -> None:
    old = deque(entry for entry in segment.transactions.entries if entry.last_offset >= start)
    aborted: list[EndedTransaction] = []

    def is_damaged(offset: int) -> bool:
        return segment.quarantine.at(offset) is not None

    try:
        position = segment.limit_of(max(start, segment.base_offset))
        for at, header in segment.headers(position, segment.size):
            if header.producer_id < 0 or header.base_offset < start:
                continue
            aborted += ended_by_index(producers, old, header.base_offset, is_damaged)
            ended = _noted(producers, segment, at, header, wall_ms)
            if ended is not None:
                aborted.append(ended)
    except CorruptMessage as error:  # in a segment below the recovery point, which was not scanned
        logger.error("producers of %s are incomplete: %s", segment.file.path, error)
    aborted += ended_by_index(producers, old, segment.next_offset, is_damaged)
    if not indexed:
        segment.transactions = TransactionIndex(aborted)


def ended_by_index(
    producers: ProducerTable,
    old: deque[EndedTransaction],
    before: int,
    is_damaged: Callable[[int], bool],
) -> list[EndedTransaction]:
    """End the transactions whose abort markers lie below ``before`` and are damaged. Takes the
    entries below ``before`` from ``old``."""
    ended = []
    while old and old[0].last_offset < before:
        entry = old.popleft()
        if is_damaged(entry.last_offset):
            producers.transactions.ended(entry.producer_id, entry.last_offset)
            ended.append(entry)
    return ended


def _noted(
    producers: ProducerTable, segment: Segment, at: int, header: BatchHeader, wall_ms: int
) -> EndedTransaction | None:
    batch = partial(segment.file.pread, header.length, at)
    try:
        return note(producers, header, header.base_offset, batch, wall_ms)
    except CorruptMessage as error:
        if not segment.take_in(at, BrokenBatch(at, error)):
            raise
        return None
