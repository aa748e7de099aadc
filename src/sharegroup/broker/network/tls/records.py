"""Finds where records begin and end in a TLS stream, so that OpenSSL can be given a few at a time.
OpenSSL handles all records that it is given in one call, and a record without data, such as a
change of keys, costs more than one with data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.model.limits import (
    TLS_DATA_PER_EMPTY_RECORD,
    TLS_EMPTY_RECORDS_MAX,
    TLS_RECORDS_AT_ONCE,
)

RECORD_BYTES: Final = 16 * 1024
"""The data of the longest record."""

_HEAD_BYTES: Final = 5
_LENGTH_AT: Final = 3


class TlsRecords:
    """Cuts the received bytes of one connection into pieces, and counts records without data."""

    def __init__(self) -> None:
        self._head = b""  # the incomplete header of a record
        self._left = 0  # bytes of the record's body that have not come
        self._empty = 0
        self._data_bytes = 0

    def cut(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Pieces of ``data``, each with the number of records that end in it. A piece ends with its
        TLS_RECORDS_AT_ONCE-th record, or with the first record that makes it RECORD_BYTES long."""
        start = at = count = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
            else:
                head = data[at : at + _HEAD_BYTES - len(self._head)]
                at += len(head)
                self._head += head
                if len(self._head) < _HEAD_BYTES:
                    break
                self._left = int.from_bytes(self._head[_LENGTH_AT:], "big")
                self._head = b""
            if self._left:
                continue
            count += 1
            if count == TLS_RECORDS_AT_ONCE or at - start >= RECORD_BYTES:
                yield data[start:at], count
                start, count = at, 0
        if start < len(data):
            yield data[start:], count

    def read(self, records: int, chunks: list[bytes]) -> bool:
        """Count the data in so many ``records``; each record gives one chunk at most.

        Returns False if too many records had no data so far. Clients send few such records: Java's
        client changes keys after 128 GiB.
        """
        self._empty += records - len(chunks)
        self._data_bytes += sum(map(len, chunks))
        return self._empty <= TLS_EMPTY_RECORDS_MAX + self._data_bytes // TLS_DATA_PER_EMPTY_RECORD
