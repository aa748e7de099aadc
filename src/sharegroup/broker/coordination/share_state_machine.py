"""Durable share state as a machine of the runtime: wraps the core's share coordinator and encodes
its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sharegroup.broker.coordination.log import KeyValue, LoggedRecord
from sharegroup.model.environment import Clock
from sharegroup.model.errors import MalformedMessage
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord
from sharegroup.wire.internal.share_state import (
    SNAPSHOT_PREFIX,
    UPDATE_PREFIX,
    decode_record,
    encode_record,
)

_PREFIXES: Final = frozenset({SNAPSHOT_PREFIX, UPDATE_PREFIX})


class ShareStateMachine:
    """Implements ``machine.Machine``. ``leave_out`` is called for each malformed record."""

    def __init__(
        self,
        updates_per_snapshot: int,
        clock: Clock,
        leave_out: Callable[[int, MalformedMessage], None],
    ) -> None:
        self.states = ShareCoordinator(updates_per_snapshot)
        self._clock = clock
        self._leave_out = leave_out
        self._read: dict[bytes, list[LoggedRecord]] = {}
        """During replay, each share partition's last snapshot and the updates after it."""

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Keep a record undecoded. A snapshot or tombstone replaces all earlier records of its key,
        so decoding waits for the end of the replay.
        """
        if key[:2] not in _PREFIXES:
            return False
        share_partition = key[2:]
        if value is None:
            self._read.pop(share_partition, None)
        elif key.startswith(SNAPSHOT_PREFIX):
            self._read[share_partition] = [LoggedRecord(offset, key, value)]
        elif share_partition in self._read:
            self._read[share_partition].append(LoggedRecord(offset, key, value))
        return True

    def replayed(self, now_ms: int) -> None:
        """Decode and apply the live records."""
        for records in self._read.values():
            for offset, key, value, _ in records:
                try:
                    record = decode_record(key, value)
                except MalformedMessage as error:
                    self._leave_out(offset, error)
                    continue
                if record is not None:
                    self.states.replay(record.key, record.value, offset)
        self._read.clear()

    def next_deadline_ms(self) -> int | None:
        """None: nothing expires."""
        return None

    def tick(self, now_ms: int) -> Sequence[KeyedRecord]:
        """Nothing."""
        return ()

    def encode(self, record: KeyedRecord) -> KeyValue:
        """The bytes of a record."""
        return encode_record(record)

    def durable(self, records: Sequence[KeyedRecord], first_offset: int) -> None:
        """Remember where the snapshots are."""
        for offset, (key, value) in enumerate(records, start=first_offset):
            self.states.appended(key, value, offset)

    def lowest_needed(self, end_offset: int) -> int | None:
        """The offset of the oldest snapshot in use. See ``machine.Machine``."""
        return self.states.lowest_needed(end_offset)

    def size(self) -> int:
        """The number of share partitions."""
        return len(self.states)

    def live_records(self) -> Iterator[Sequence[KeyedRecord]]:
        """A new snapshot of each share partition."""
        now_ms = self._clock.wall_ms()
        for key in list(self.states):
            yield self.states.cold_snapshots([key], now_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if a state is inconsistent."""
        self.states.check_invariants()
