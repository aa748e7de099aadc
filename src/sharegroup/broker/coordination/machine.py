"""What the runtime asks of a machine. Several machines may share one partition's log.

An implementation wraps a machine of the core and adds the bytes of its records. Its own methods
decide: the shell of the coordinator calls them through ``Runtime.begin`` and ``Runtime.commit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from sharegroup.broker.coordination.log import KeyValue

R = TypeVar("R")


class Machine(Protocol[R]):
    """The state that records of type ``R`` in one log add up to. Times are milliseconds of the
    monotonic clock."""

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Take in a record of the log; False for a record of another machine. What earlier records
        said may be missing where a later one says it again.

        Raises:
            MalformedMessage: the record makes no sense; nothing has changed.
        """
        ...

    def replayed(self, now_ms: int) -> None:
        """The log has been read to its end."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        ...

    def tick(self, now_ms: int) -> Sequence[R]:
        """Do what is due; the records that say so."""
        ...

    def encode(self, record: R) -> KeyValue:
        """The bytes of a record."""
        ...

    def durable(self, records: Sequence[R], first_offset: int) -> None:
        """These records of one write are durable, the first at ``first_offset``."""
        ...

    def lowest_needed(self, end_offset: int) -> int | None:
        """The offset of the oldest record that a replay needs; ``end_offset`` when it needs none,
        None when that is not known."""
        ...

    def size(self) -> int:
        """About how many records :meth:`live_records` gives."""
        ...

    def live_records(self) -> Iterator[Sequence[R]]:
        """All there is, as a new log would say it, key by key. The machine may change while this
        is iterated: each item is true when it is handed out."""
        ...

    def check_invariants(self) -> None:
        """Raise AssertionError where the state cannot be."""
        ...
