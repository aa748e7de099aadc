"""Acknowledgements that belong to a transaction, until the transaction ends (KIP-1289)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class TransactionMark(NamedTuple):
    """Names a transaction in share state: by its producer, which has one open transaction."""

    producer_id: int
    producer_epoch: int

    @property
    def holder(self) -> str:
        """Who holds the records meanwhile. It is longer than the id of a member may be, so no
        member has this name."""
        return f"the open transaction of producer {self.producer_id}, epoch {self.producer_epoch}"

    def ends(self, other: TransactionMark) -> bool:
        """Whether the end of this transaction ends ``other``, too: it has the same producer, and no
        later epoch. The end of a transaction raises the epoch."""
        return self.producer_id == other.producer_id and self.producer_epoch >= other.producer_epoch


class PendingAck(NamedTuple):
    """Records ``first`` … ``last``, both included, delivered ``delivery_count`` times, which are
    acknowledged if ``transaction`` commits, and come back if it aborts."""

    first: int
    last: int
    delivery_count: int
    kind: int
    """The ``AckType``: ACCEPT or REJECT."""
    transaction: TransactionMark
    member_id: str
    """The member that has acknowledged them."""
    reason: str = ""
    """Why it rejects them; empty if it said nothing."""

    @property
    def size(self) -> int:
        """How many records they are."""
        return self.last - self.first + 1


class EndRules(NamedTuple):
    """What the group's settings make of such records when their transaction ends."""

    dead_letters: bool
    """Those that fail for good must become dead letters."""
    delivery_count_limit: int
    """Those that an abort gives back with so many deliveries are given up."""
    blocks: bool = False
    """They wait for an operator instead."""
    due_ms: Callable[[int, int], int] | None = None
    """Delivery count and first offset of others that an abort gives back → when they may be
    delivered again, in milliseconds since 1970. None: at once."""
