"""Updates producer state for a batch in the log, when it is appended and when it is replayed."""

from __future__ import annotations

from collections.abc import Callable

from sharegroup.model.log import Appended
from sharegroup.transactions.ongoing import EndedTransaction
from sharegroup.transactions.producers import ProducerTable
from sharegroup.wire.batch import BatchHeader, Buffer
from sharegroup.wire.markers import MarkerType, decode_marker, is_control, is_transactional


def duplicate_of(producers: ProducerTable, header: BatchHeader) -> Appended | None:
    """Check a batch that its producer wants to append. If it is a retry of a batch that is in the
    log, returns where the first copy is; else None.

    Raises:
        KafkaError: the producer's epoch or sequence number is wrong.
    """
    if header.producer_id < 0:
        return None
    offsets = producers.check(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_offset_delta,
        transactional=is_transactional(header),
    )
    if offsets is None:
        return None
    base_offset, last_offset = offsets
    return Appended(base_offset=base_offset, last_offset=last_offset, duplicate=True)


def note(
    producers: ProducerTable,
    header: BatchHeader,
    base_offset: int,
    batch: Callable[[], Buffer],
    now_ms: int,
) -> EndedTransaction | None:
    """Update ``producers`` for the batch at ``base_offset``. Returns the transaction that it
    aborts, if it is an abort marker.

    ``batch`` reads the whole batch; it is called only for a marker.

    Raises:
        CorruptMessage: a control batch cannot be read.
    """
    if not is_control(header):
        producers.applied(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            base_offset,
            base_offset + header.last_offset_delta,
            now_ms,
            transactional=is_transactional(header),
        )
        return None
    marker = decode_marker(batch())
    if marker.type not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    ended = producers.marked(
        header.producer_id, header.producer_epoch, base_offset, marker.coordinator_epoch, now_ms
    )
    return ended if marker.type == MarkerType.ABORT else None
