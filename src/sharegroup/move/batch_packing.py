"""Batches for a copy: large ones as they are, small ones and those with gaps packed anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.move.committed_log import CommittedBatch
from sharegroup.move.offset_map import OffsetMap
from sharegroup.records.pure_codec import Fields
from sharegroup.records.record_codec import BatchBuilder
from sharegroup.wire.batch import COMPRESSION_MASK, HEADER_BYTES, TRANSACTIONAL, with_records

AS_IT_IS_BYTES: Final = 16 * 1024
"""From this size on a batch is copied without a look at its records: packing costs more than the
request that it saves."""
PACKED_BYTES_MAX: Final = 512 * 1024
NO_PRODUCER: Final = -1


class BatchPacking:
    """Turns batches of the source into batches of the copy, in order. Base offset 0; leader epoch,
    producer id, epoch and sequence are -1.

    Args:
        places: gets to know every record.
        bytes_max: the largest batch that the target takes, unless one record is larger.
    """

    def __init__(self, places: OffsetMap, bytes_max: int) -> None:
        self._places = places
        self._as_it_is_max = bytes_max
        self._bytes_max = min(bytes_max, PACKED_BYTES_MAX)
        self._codec = 0
        self._open: BatchBuilder | None = None

    def take(self, batch: CommittedBatch) -> Iterator[bytes]:
        """What is to be appended now.

        Raises:
            KafkaError: the batch is damaged.
        """
        header = batch.header
        if batch.whole and AS_IT_IS_BYTES <= header.length <= self._as_it_is_max:
            yield from self.rest()
            self._places.add(header.base_offset, header.record_count)
            yield as_it_is(batch)
            return
        codec = header.attributes & COMPRESSION_MASK
        if codec != self._codec:
            yield from self.rest()
            self._codec = codec
        for record in batch.records():
            yield from self._pack(record)
            self._places.add(record[0], 1)

    def rest(self) -> Iterator[bytes]:
        """The batch that is not full yet, if there is one."""
        if self._open is not None:
            yield bytes(self._open.build())
            self._open = None

    def _pack(self, record: Fields) -> Iterator[bytes]:
        if self._open is not None:
            if self._open.append(*record[1:]):
                return
            yield from self.rest()
        self._open = BatchBuilder(self._codec, self._bytes_max)
        self._open.append(*record[1:])


def as_it_is(batch: CommittedBatch) -> bytes:
    """The batch of no producer, in no transaction."""
    header = batch.header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=batch.header.attributes & ~TRANSACTIONAL,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
    )
    return with_records(header, batch.data[HEADER_BYTES:])
