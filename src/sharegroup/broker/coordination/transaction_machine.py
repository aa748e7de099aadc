"""Transactional ids as a machine of the runtime: wraps the core's coordinator and encodes its
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sharegroup.broker.coordination.log import KeyValue
from sharegroup.model.environment import Clock
from sharegroup.transactions.coordinator import Record, TransactionCoordinator
from sharegroup.transactions.transaction import Expired, Transaction
from sharegroup.wire.internal.transaction_log import decode_record, encode_record

MARKER_KEY_BYTES: Final = 4
"""Length of the key of a control record. Keys of transactional ids are longer."""


class TransactionMachine:
    """Implements ``machine.Machine``. ``on_decided`` is called with each transaction whose outcome
    has become durable, ``on_timed_out`` for each that has passed its time-out.

    The log holds wall-clock times, so that a transaction times out over a restart.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        clock: Clock,
        on_decided: Callable[[Transaction], None],
        on_timed_out: Callable[[], None],
    ) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._on_decided = on_decided
        self._on_timed_out = on_timed_out

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record; True, because the log holds no others."""
        if len(key) > MARKER_KEY_BYTES:
            self.coordinator.replay(decode_record(key, value))
        return True

    def replayed(self, now_ms: int) -> None:
        """Nothing: the shell goes on with the decided transactions."""

    def next_deadline_ms(self) -> int | None:
        """When a transaction times out or an id expires, by the monotonic clock."""
        at_ms = self.coordinator.next_deadline_ms()
        if at_ms is None:
            return None
        return self._clock.monotonic_ms() + max(0, at_ms - self._clock.wall_ms())

    def tick(self, now_ms: int) -> Sequence[Record]:
        """Abort what has timed out, and forget what has expired."""
        records = self.coordinator.tick(self._clock.wall_ms())
        for record in records:
            if not isinstance(record, Expired):
                self._on_timed_out()
        return records

    def encode(self, record: Record) -> KeyValue:
        """The bytes of a record."""
        return encode_record(record)

    def durable(self, records: Sequence[Record], first_offset: int) -> None:
        """Report the outcomes that are durable now."""
        for record in records:
            if not isinstance(record, Expired) and record.prepared:
                self._on_decided(record)

    def lowest_needed(self, end_offset: int) -> int | None:
        """None: the offset is unknown without a rewrite."""
        return None

    def size(self) -> int:
        """The number of transactional ids."""
        return len(self.coordinator)

    def live_records(self) -> Iterator[Sequence[Record]]:
        """The state of each id."""
        for transaction in self.coordinator:
            current = self.coordinator.find(transaction.transactional_id)
            if current is not None:
                yield (current,)

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        self.coordinator.check_invariants()
