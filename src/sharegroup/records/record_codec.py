"""Records of a batch as tuples, and a batch from records: compiled (``record_codec.c``) where the
walk is, otherwise in Python.

Reading checks all that the walk checks, in the same pass, so a batch from anybody may be read.
"""

from __future__ import annotations

from sharegroup.records.check import check_counts, check_room, plain_records, refuse
from sharegroup.records.compiled_codec import codec_with
from sharegroup.records.pure_codec import PURE, Buffer, Codec, Fields
from sharegroup.records.walk import LIBRARY
from sharegroup.records.walk_result import Verdict
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    batch_of_records,
)
from sharegroup.wire.compression import compress

IN_USE: Codec = codec_with(LIBRARY) or PURE
"""The codec of this process."""


def records_in(header: BatchHeader, batch: Buffer) -> list[Fields]:
    """The records of one batch, unpacked where they are compressed.

    Args:
        header: the batch's own header.
        batch: the whole batch, with its 61 bytes of header; its CRC is not checked.

    Raises:
        InvalidRecord, CorruptMessage, UnsupportedCompressionType: as
            :func:`sharegroup.records.check.check_records` without ``dense``.
    """
    check_counts(header, dense=False)
    data, start = batch, HEADER_BYTES
    if header.attributes & COMPRESSION_MASK:
        data, start = plain_records(header, batch), 0
    check_room(header, len(data) - start)
    append_time = bool(header.attributes & LOG_APPEND_TIME)
    found, verdict = IN_USE.read_records(
        data,
        start,
        len(data),
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.max_timestamp if append_time else header.base_timestamp,
        append_time,
    )
    if verdict:
        refuse(header, len(found), Verdict(verdict))
    return found


class BatchBuilder:
    """Fills one batch, whose base offset is 0.

    Args:
        compression: the codec of the batch's records, as in its attributes; 0: none.
        bytes_max: of the batch, with its header, before it is compressed.

    Attributes:
        append: ``append(timestamp_ms, key, value, headers)`` adds a record. It returns False, and
            adds nothing, if the batch would become larger than ``bytes_max``; a first record always
            fits.
    """

    __slots__ = ("_attributes", "_compression", "_finish", "append")

    def __init__(self, compression: int, bytes_max: int, *, transactional: bool = False) -> None:
        self._compression = compression
        self._attributes = TRANSACTIONAL if transactional else 0
        self.append, self._finish = IN_USE.new_writer(bytes_max)

    def build(self) -> bytearray:
        """The batch; leader epoch, producer id, epoch and sequence are -1. Its records are
        compressed if that makes them smaller.

        Raises:
            ValueError: there is no record.
            UnsupportedCompressionType: there is no such codec.
        """
        records, count, base_timestamp, max_timestamp = self._finish()
        if not count:
            raise ValueError("a record batch has at least one record")
        attributes = self._attributes
        if self._compression:
            packed = compress(self._compression, records)
            if len(packed) < len(records):
                records, attributes = packed, attributes | self._compression
        return batch_of_records(records, count, base_timestamp, max_timestamp, attributes)
