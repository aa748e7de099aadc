"""The type that delivery and durable state share: a run of records in one state."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class StateBatch(NamedTuple):
    """Records ``first`` … ``last`` (both included) in one delivery state with one delivery count.

    ``state`` is the number Kafka writes: 0 available, 2 acknowledged, 4 archived (class
    PersisterStateBatch); ``sharegroup.share.record_state`` names them.
    """

    first: int
    last: int
    state: int
    delivery_count: int


class DelayedRow(NamedTuple):
    """Records ``first`` … ``last``, both included, delivered ``delivery_count`` times, which must
    not be delivered again before ``due_ms``.

    In delivery it is a time of the monotonic clock, in durable state milliseconds since 1970.
    """

    first: int
    last: int
    delivery_count: int
    due_ms: int


StateRow: TypeAlias = tuple[int, int, int, int]
"""A :class:`StateBatch`, or a plain tuple of the same four numbers, which is equal to it. A window
in many pieces makes very many rows: a plain tuple costs a third of a StateBatch, and Python's
garbage collector soon passes it over."""
