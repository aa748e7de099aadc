"""Records of groups that no coordinator here serves, such as Kafka's consumer groups.

They may be in ``__consumer_offsets`` of a folder that another broker or a later version has
written. Nobody reads them here, but a rewrite must not delete them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sharegroup.broker.coordination.log import KeyValue

MARKER_KEY_BYTES: Final = 4
"""Length of the key of a transaction marker. Keys of group records are longer."""


class ForeignRecords:
    """Implements ``machine.Machine``: keeps the last value of each key, unread. It takes every
    record, so it must be the last machine of its runtime.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Keep the record; a tombstone removes its key. A marker is dropped: the log yields no
        records of aborted transactions, so the others need none."""
        if value is None:
            self._values.pop(key, None)
        elif len(key) > MARKER_KEY_BYTES:
            self._values[key] = value
        return True

    def replayed(self, now_ms: int) -> None:
        """Nothing."""

    def next_deadline_ms(self) -> int | None:
        """None: nothing expires."""
        return None

    def tick(self, now_ms: int) -> Sequence[KeyValue]:
        """Nothing."""
        return ()

    def encode(self, record: KeyValue) -> KeyValue:
        """The record as it is."""
        return record

    def durable(self, records: Sequence[KeyValue], first_offset: int) -> None:
        """Nothing: the records are only written again, never changed."""

    def lowest_needed(self, end_offset: int) -> int | None:
        """None while there are records: their offsets are not kept."""
        return None if self._values else end_offset

    def size(self) -> int:
        """The number of keys."""
        return len(self._values)

    def live_records(self) -> Iterator[Sequence[KeyValue]]:
        """Each key with its last value."""
        for record in list(self._values.items()):
            yield (record,)

    def check_invariants(self) -> None:
        """Nothing to check."""
