"""The key hashes of stored batches, kept beside them for the next fetch with key ranges.

A batch is known by its partition, base offset and checksum, so that a batch that the log cleaner
has rewritten counts as another batch. The entry that was used longest ago is dropped first. If the
topic's ``reserve.message.value.range.fetch`` says so, the unpacked records of a compressed batch
are kept as well, until each part of the hash space was answered (KIP-X: a served entry is evicted).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.cooperative.intervals import Intervals, minus
from sharegroup.model.ids import TopicIdPartition
from sharegroup.records.filtering import Known
from sharegroup.wire.batch import BatchHeader

ENTRY_BYTES: Final = 600
"""Bytes of memory that an entry takes beside its hashes and records."""

Key = tuple[TopicIdPartition, int, int]


class _Entry:
    __slots__ = ("known", "nbytes", "unserved")

    def __init__(self, known: Known, unserved: Intervals) -> None:
        self.known = known
        self.unserved = unserved
        self.nbytes = ENTRY_BYTES + known.hashes.nbytes + len(known.plain or b"")


class HashIndex:
    """See the module. It is used by one thread at a time.

    Args:
        bytes_max: ``max.bytes.key.range.cache``.
    """

    def __init__(self, bytes_max: Callable[[], int]) -> None:
        self._bytes_max = bytes_max
        self._entries: dict[Key, _Entry] = {}
        self.nbytes = 0
        """Bytes of memory that all entries take."""

    def __len__(self) -> int:
        return len(self._entries)

    def recall(self, where: TopicIdPartition, header: BatchHeader) -> Known | None:
        """What is known about a batch; None if it has no entry."""
        key = (where, header.base_offset, header.crc)
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = entry
        return entry.known

    def keep(
        self,
        where: TopicIdPartition,
        header: BatchHeader,
        known: Known,
        served: Intervals,
        *,
        values: bool,
    ) -> None:
        """Keep what was found out about a batch.

        Args:
            served: the key ranges whose records are answered now.
            values: keep the unpacked records, if ``known`` has any.
        """
        key = (where, header.base_offset, header.crc)
        entry = self._entries.get(key)
        if entry is not None and entry.known.plain is None and not values:
            return
        unserved = minus(WHOLE if entry is None else entry.unserved, served) if values else WHOLE
        if not values or not unserved:
            known = known._replace(plain=None)
        if entry is not None:
            self.nbytes -= self._entries.pop(key).nbytes
        entry = _Entry(known, unserved)
        self._entries[key] = entry
        self.nbytes += entry.nbytes
        self._shrink()

    def _shrink(self) -> None:
        most = self._bytes_max()
        while self.nbytes > most:
            self.nbytes -= self._entries.pop(next(iter(self._entries))).nbytes

    def check_invariants(self) -> None:
        """Assert that the sizes add up and are within the bound."""
        assert self.nbytes == sum(entry.nbytes for entry in self._entries.values())
        assert self.nbytes <= self._bytes_max()
