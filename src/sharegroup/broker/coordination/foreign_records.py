"""Records of groups that no coordinator here serves, such as Kafka's streams groups.

They may be in ``__consumer_offsets`` of a folder that another broker or a later version has
written. Nobody reads them here, but a rewrite must not delete them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.broker.coordination.log import KeyValue, ProducerEpoch


class ForeignRecord(NamedTuple):
    """A record as it is in the log."""

    key: bytes
    value: bytes | None
    producer: ProducerEpoch | None = None


class ForeignRecords:
    """Implements ``machine.TransactionalMachine``: keeps the last value of each key, unread. It
    takes every record, so it must be the last machine of its runtime.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._pending: dict[int, dict[bytes, ForeignRecord]] = {}
        """Producer id → the last record of each key in its open transaction."""

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Keep the record; a tombstone removes its key, also from open transactions. A record that
        is in no transaction replaces earlier records of its key in open transactions, unless a
        rewrite has repeated it."""
        if value is None or self._values.get(key) != value:
            for records in self._pending.values():
                records.pop(key, None)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        return True

    def replay_pending(
        self, offset: int, key: bytes, value: bytes | None, producer: ProducerEpoch
    ) -> bool:
        """Keep the record until its transaction ends."""
        records = self._pending.setdefault(producer.producer_id, {})
        records.pop(key, None)
        records[key] = ForeignRecord(key, value, producer)
        return True

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replay the producer's pending records, or drop them."""
        for key, value, _ in self._pending.pop(producer_id, {}).values():
            if committed:
                self.replay(0, key, value)

    def producer_of(self, record: ForeignRecord) -> ProducerEpoch | None:
        """The producer whose transaction the record belongs to; None outside transactions."""
        return record.producer

    def replayed(self, now_ms: int) -> None:
        """Nothing."""

    def next_deadline_ms(self) -> int | None:
        """None: nothing expires."""
        return None

    def tick(self, now_ms: int) -> Sequence[ForeignRecord]:
        """Nothing."""
        return ()

    def encode(self, record: ForeignRecord) -> KeyValue:
        """The record as it is."""
        return record.key, record.value

    def durable(self, records: Sequence[ForeignRecord], first_offset: int) -> None:
        """Nothing: the records are only written again, never changed."""

    def lowest_needed(self, end_offset: int) -> int | None:
        """None while there are records: their offsets are not kept."""
        return None if self.size() else end_offset

    def size(self) -> int:
        """The number of keys."""
        return len(self._values) + sum(len(records) for records in self._pending.values())

    def live_records(self) -> Iterator[Sequence[ForeignRecord]]:
        """Each key with its last value; then the pending records."""
        for key, value in list(self._values.items()):
            yield (ForeignRecord(key, value),)
        for producer_id in list(self._pending):
            yield tuple(self._pending.get(producer_id, {}).values())

    def check_invariants(self) -> None:
        """Nothing to check."""
