"""Which records of a fetch a committed reader does not see: records of aborted transactions."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import AbortedTransaction
from sharegroup.records.batches import bounds_of
from sharegroup.wire.batch import check_crc
from sharegroup.wire.markers import aborted_ranges


def hidden_ranges(
    data: bytes, aborted: Sequence[AbortedTransaction], check_crcs: bool
) -> tuple[list[tuple[int, int]], bytes]:
    """The offsets of aborted transactions, both ends included, and the bytes for which these are
    known: all bytes, unless a batch is damaged. The batches after it are to be fetched again.
    """
    if not aborted:
        return [], data
    whole = memoryview(data)
    end, damaged_end = 0, 0
    try:
        for one in bounds_of(whole):
            damaged_end = end + len(one.batch)
            aborted_ranges(one.batch, ())  # its header can be read
            if check_crcs:
                check_crc(one.batch)
            end = damaged_end
    except CorruptMessage:
        # Bytes after the last good batch that are no batch are kept: their reader reports them.
        known = damaged_end if damaged_end > end or end else len(data)
        return aborted_ranges(whole[:end], aborted), data[:known]
    return aborted_ranges(whole[:end], aborted), data[:end]
