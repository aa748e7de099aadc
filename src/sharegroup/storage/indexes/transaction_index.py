"""Kafka's ``.txnindex`` file: the transactions that were aborted in one segment (Kafka classes
TransactionIndex, AbortedTxn).

Entries of 34 bytes in order of their markers: version i16 (0), producer id i64, first offset i64,
offset of the marker i64, last stable offset right after the marker i64. The index lists the
transactions whose *marker* lies in the segment, wherever they began. A segment without such markers
has no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sharegroup.model.log import AbortedTransaction
from sharegroup.transactions.ongoing import EndedTransaction

_ENTRY = struct.Struct(">hqqqq")
VERSION: Final = 0


class Found(NamedTuple):
    """The aborted transactions that one segment lists for a range of offsets."""

    transactions: list[AbortedTransaction]
    complete: bool
    """The list is complete: later segments have no further transactions with batches in the range.
    """


class TransactionIndex:
    """The aborted transactions of one segment."""

    def __init__(self, entries: Iterable[EndedTransaction] = ()) -> None:
        self.entries: list[EndedTransaction] = list(entries)

    def append(self, aborted: EndedTransaction) -> None:
        """Add the transaction of an abort marker in the segment; markers must come in order."""
        self.entries.append(aborted)

    def find(self, start_offset: int, end_offset: int) -> Found:
        """The transactions that have batches in ``start_offset`` … ``end_offset`` (exclusive)."""
        found = []
        entries = self.entries
        at = bisect_left(entries, start_offset, key=lambda entry: entry.last_offset)
        for entry in entries[at:]:
            if entry.first_offset < end_offset:
                found.append(AbortedTransaction(entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end_offset:
                return Found(found, complete=True)
        return Found(found, complete=False)

    def to_bytes(self) -> bytes:
        """The file's content."""
        return b"".join(_ENTRY.pack(VERSION, *entry) for entry in self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> TransactionIndex:
        """Read a file.

        Raises:
            ValueError: another version, or the last entry is cut off.
        """
        if len(data) % _ENTRY.size:
            raise ValueError(f"a transaction index of {len(data)} bytes ends inside an entry")
        rows: Sequence[tuple[int, ...]] = list(_ENTRY.iter_unpack(data))
        if any(row[0] != VERSION for row in rows):
            raise ValueError(f"an entry of a transaction index does not have version {VERSION}")
        return cls(EndedTransaction(*row[1:]) for row in rows)
