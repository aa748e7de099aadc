"""The protocol between the runtime and its machines. Several machines may share a partition's log.

An implementation wraps a machine of the core and encodes its records. Decisions are methods of the
implementation: the coordinator calls them through ``Runtime.begin`` and ``Runtime.commit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from sharegroup.broker.coordination.log import (
    EndOfTransaction,
    KeyValue,
    LoggedRecord,
    ProducerEpoch,
)

R = TypeVar("R")


class Machine(Protocol[R]):
    """The state built from the records of type ``R`` in one log. Times are milliseconds of the
    monotonic clock."""

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record of the log; False for a record of another machine. Earlier records may be
        missing if later ones replace them.

        Raises:
            MalformedMessage: the record is malformed; nothing has changed.
        """
        ...

    def replayed(self, now_ms: int) -> None:
        """The log has been read to its end."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` must be called; None: it has nothing to do."""
        ...

    def tick(self, now_ms: int) -> Sequence[R]:
        """Apply the changes that are due; returns their records."""
        ...

    def encode(self, record: R) -> KeyValue:
        """The bytes of a record."""
        ...

    def durable(self, records: Sequence[R], first_offset: int) -> None:
        """These records of one write are durable, the first at ``first_offset``."""
        ...

    def lowest_needed(self, end_offset: int) -> int | None:
        """The offset of the oldest record that a replay needs; ``end_offset`` if a replay needs no
        record, None if the offset is not known."""
        ...

    def size(self) -> int:
        """The approximate number of records that :meth:`live_records` yields."""
        ...

    def live_records(self) -> Iterator[Sequence[R]]:
        """The records that a new log needs for the current state, key by key. The machine may
        change during the iteration: each item is current when it is yielded."""
        ...

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        ...


@runtime_checkable
class TransactionalMachine(Machine[R], Protocol[R]):
    """A machine some of whose records belong to transactions. Such records are *pending*: they
    take effect when the transaction commits, and never if it aborts."""

    def producer_of(self, record: R) -> ProducerEpoch | None:
        """The producer whose transaction the record belongs to; None outside transactions. All
        records of one decision have the same producer, or none has one."""
        ...

    def replay_pending(
        self, offset: int, key: bytes, value: bytes | None, producer: ProducerEpoch
    ) -> bool:
        """Apply a record of a transaction that has not ended at this place in the log. In all other
        respects as :meth:`replay`."""
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The pending records of the producer take effect, or are dropped."""
        ...


def transactional(machine: Machine[Any]) -> TransactionalMachine[Any] | None:
    """The machine, if some of its records may belong to transactions."""
    return cast("Any", machine) if _keeps_transactions(type(machine)) else None


@cache
def _keeps_transactions(kind: type[Machine[Any]]) -> bool:
    return issubclass(kind, TransactionalMachine)


def runs(machine: Machine[Any], records: Sequence[Any]) -> list[Sequence[Any]]:
    """The records in order, cut where the producer changes: a batch has only one producer."""
    keeper = transactional(machine)
    if keeper is None:
        return [records] if records else []
    return [list(run) for _, run in groupby(records, keeper.producer_of)]


def replay(machines: Sequence[Machine[Any]], record: LoggedRecord) -> None:
    """Give a record to the machine that it belongs to. Raises MalformedMessage."""
    offset, key, value, producer = record
    if producer is None:
        for machine in machines:
            if machine.replay(offset, key, value):
                return
        return
    for keeper in filter(None, map(transactional, machines)):
        if keeper.replay_pending(offset, key, value, producer):
            return


def end_in(machines: Sequence[Machine[Any]], end: EndOfTransaction) -> None:
    """Tell the machines how a transaction has ended."""
    for keeper in filter(None, map(transactional, machines)):
        keeper.end_transaction(end.producer.producer_id, committed=end.committed)
