"""What the cleaner leaves of one batch (Kafka classes Cleaner, CleanedTransactionMetadata and
MemoryRecords, filterTo).

* A record goes when its key has a later record. A record without a value (a tombstone) stays until
  its batch's *delete horizon*: ``delete.retention.ms`` after the first cleaning that met it,
  written into the header (KIP-534), and until the share groups that the topic names have finished
  it.
* Records of aborted transactions go. A marker goes after its own delete horizon, which it gets when
  no batch of its transaction is left.
* A batch without records goes too, with two exceptions. The last batch of a producer stays: its
  sequence number is needed. The last batch of a segment stays: it says where the segment ends.

Offsets, order, codec and sequence numbers never change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.records.check import check_counts, plain_records
from sharegroup.records.keys import KeptRecords, KeyTable, Rules
from sharegroup.transactions.ongoing import EndedTransaction
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    with_records,
)
from sharegroup.wire.compression import compress
from sharegroup.wire.markers import MarkerType, decode_marker, is_control, is_transactional

NO_TIMESTAMP = -1


class LastOfProducer(NamedTuple):
    """A producer's newest batch in the log."""

    last_offset: int
    """-1: only a marker of the producer is known."""
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRules:
    """The rules of one run of the cleaner. Times are wall clock in milliseconds."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    """The keys of all records below this offset are known."""
    hold: bool
    """Tombstones and markers stay: damage keeps older records from being cleaned. Segments with
    damage are not read."""
    held_from: int
    """Tombstones from this offset on stay: a share group that the topic names needs them."""
    producers: Mapping[int, LastOfProducer]


class Aborted:
    """Which batches belong to aborted transactions."""

    def __init__(self, transactions: Iterable[EndedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for ended in sorted(transactions, key=lambda each: each.first_offset):
            own = self._ranges.setdefault(ended.producer_id, [])
            own.append((ended.first_offset, ended.last_offset))

    def holds(self, header: BatchHeader) -> bool:
        """Whether the batch has records of an aborted transaction."""
        if not is_transactional(header) or is_control(header):
            return False
        ranges = self._ranges.get(header.producer_id, ())
        at = bisect_right(ranges, header.base_offset, key=lambda each: each[0]) - 1
        return at >= 0 and header.base_offset <= ranges[at][1]


class BatchCleaner:
    """Cleans the batches of one log, which must come in order."""

    def __init__(self, keys: KeyTable, aborted: Aborted, rules: CleanRules) -> None:
        self._keys = keys
        self._aborted = aborted
        self._rules = rules
        self._seen: set[int] = set()
        self.kept_markers: set[int] = set()
        """The offsets of abort markers whose transaction still had batches, or may have had."""

    def cleaned(self, header: BatchHeader, batch: Buffer, *, last: bool) -> Buffer | None:
        """The batch without the records that go; None if the whole batch goes. Its CRC must be
        good. ``last``: the batch stays in any case, if need be without records.

        Raises:
            CorruptMessage, InvalidRecord, UnsupportedCompressionType: its records cannot be read.
        """
        check_counts(header, dense=False)
        if is_control(header):
            left = self._control(header, batch)
        else:
            left = self._data(header, batch)
        if left is None and (last or self._is_last_of_producer(header)):
            return _without_records(header) if header.record_count else batch
        return left

    def _control(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if not header.record_count:
            return None
        rules = self._rules
        if not self._is_over(header, batch):
            return batch
        horizon = delete_horizon(header)
        if horizon is None:
            horizon = rules.now_ms + rules.delete_retention_ms
            kept = self._keys.kept(header, *_plain(header, batch), Rules(0, False, horizon))
            return _rebuilt(header, kept, horizon)
        return None if horizon <= rules.now_ms else batch

    def _is_over(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a control batch is a marker without any batch of its transaction before it. While
        damage hides batches, none is known to be."""
        marker = decode_marker(batch)
        if marker.type not in (MarkerType.ABORT, MarkerType.COMMIT):
            return False
        if header.producer_id not in self._seen and not self._rules.hold:
            return True
        self._seen.discard(header.producer_id)
        if marker.type == MarkerType.ABORT:
            self.kept_markers.add(header.base_offset)
        return False

    def _data(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if is_transactional(header):
            self._seen.add(header.producer_id)
        if self._aborted.holds(header) or not header.record_count:
            return None
        rules = self._rules
        if header.base_offset >= rules.end_offset:
            return batch
        horizon = delete_horizon(header)
        held = rules.hold or header.last_offset >= rules.held_from
        drop = horizon is not None and horizon <= rules.now_ms and not held
        data, start = _plain(header, batch)
        base_ms = header.base_timestamp
        kept = self._keys.kept(header, data, start, Rules(rules.end_offset, drop, base_ms))
        if not kept.records:
            return None
        if kept.tombstones and horizon is None:
            horizon = rules.now_ms + rules.delete_retention_ms
            kept = self._keys.kept(header, data, start, Rules(rules.end_offset, drop, horizon))
        elif kept.records == header.record_count:
            return batch
        return _rebuilt(header, kept, horizon)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        known = self._rules.producers.get(header.producer_id)
        if known is None:
            return False
        if known.last_offset >= 0:
            return known.last_offset == header.last_offset
        return is_control(header) and known.epoch == header.producer_epoch


def delete_horizon(header: BatchHeader) -> int | None:
    """When the batch's tombstones, or its marker, may be removed; None: not decided yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def note_keys(keys: KeyTable, header: BatchHeader, batch: Buffer) -> None:
    """Note the keys of a data batch; raises as :meth:`BatchCleaner.cleaned`."""
    check_counts(header, dense=False)
    if header.record_count and not is_control(header):
        keys.note(header, *_plain(header, batch))


def _plain(header: BatchHeader, batch: Buffer) -> tuple[Buffer, int]:
    """(bytes, where the plain records begin in them)."""
    if header.attributes & COMPRESSION_MASK:
        return plain_records(header, batch), 0
    return bytes(batch), HEADER_BYTES


def _rebuilt(header: BatchHeader, kept: KeptRecords, horizon: int | None) -> bytes:
    attributes, base_ms = header.attributes, header.base_timestamp
    if horizon is not None:
        attributes, base_ms = attributes | DELETE_HORIZON, horizon
    appended = attributes & LOG_APPEND_TIME
    left = header._replace(
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=header.max_timestamp if appended else kept.latest_ms,
        record_count=kept.records,
    )
    codec = attributes & COMPRESSION_MASK
    return with_records(left, compress(codec, kept.data) if codec else kept.data)


def _without_records(header: BatchHeader) -> bytes:
    """An empty batch of the same offsets and the same producer (Kafka class DefaultRecordBatch,
    writeEmptyHeader)."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    left = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return with_records(left, b"")
