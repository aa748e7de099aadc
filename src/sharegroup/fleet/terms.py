"""Who owns a state partition of a Kafka cluster, decided by the log of the partition alone.

Each batch in the log begins with a record that names its owner, with the owner's *term*. **A batch
counts if no batch before it has a higher term**; of several owners with one term, only the batches
of the first one count.

A new owner reads the log to its end, and then writes its *claim*: a batch of its own, with a higher
term than all that it has read. If something came in between, it reads that as well, and claims
again if a term in there is as high as its own. So whatever counts was read by it, or is its own.

Offsets of a log are dense. An owner whose batch stands where the log ended before knows from this
answer alone that nobody wrote in between. Otherwise it reads what lies in between before anybody
gets an answer: a batch with a higher term in there says that the partition is lost. So each answer
to a client stands in the log before the claim of the next owner, who has read it.

This needs nothing of the cluster but the order of its log, and that what it confirmed stays. The
epochs of idempotent producers, by which Kafka refuses an earlier owner, only save work.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from sharegroup.model.offsets import OffsetRange

BEGIN_STEP: Final = 100
"""Offsets between the beginnings of batches that are remembered."""


class Owner(NamedTuple):
    """Who writes, as its batches say."""

    term: int
    node_id: int
    incarnation: bytes
    """16 bytes; each process has its own."""


class Terms:
    """The rule for one log, whose batches are shown in order."""

    def __init__(self) -> None:
        self._owner: Owner | None = None

    @property
    def owner(self) -> Owner | None:
        """Whose batches count now; None: there was no batch."""
        return self._owner

    @property
    def next(self) -> int:
        """The lowest term that a new owner can have."""
        return 1 if self._owner is None else self._owner.term + 1

    def counts(self, owner: Owner) -> bool:
        """The next batch is this owner's; whether it counts."""
        if self._owner is None or owner.term > self._owner.term:
            self._owner = owner
        return owner == self._owner


class LogMovedBack(Exception):
    """The log ended before the place where it had ended: the cluster has lost what it confirmed."""


class OwnedTail:
    """What an owner knows of the end of its partition.

    Args:
        end: the offset after its claim.
        begins: the beginnings of its batches that count, of which the log begins with one.
    """

    def __init__(self, end: int, begins: list[int]) -> None:
        self.end = end
        self._begins = begins

    def appended(self, first: int, records: int) -> OffsetRange | None:
        """The cluster has confirmed a batch of ours. Returns the offsets that came in between, to
        be read before anything is answered; None: there are none.

        Raises:
            LogMovedBack: see there.
        """
        if first < self.end:
            raise LogMovedBack(f"offset {first} was given to a batch after {self.end - 1}")
        between = OffsetRange(self.end, first - 1) if first > self.end else None
        self.end = first + records
        if not self._begins or first >= self._begins[-1] + BEGIN_STEP:
            self._begins.append(first)
        return between

    def deletable(self, offset: int) -> int | None:
        """The offset before which all may be deleted if nothing before ``offset`` is needed: the
        log must begin with a batch of ours, for a batch of an earlier owner would count there.
        None: nothing may be deleted."""
        at = bisect_right(self._begins, offset)
        return self._begins[at - 1] if at else None

    def deleted(self, offset: int) -> None:
        """Everything before ``offset`` was deleted."""
        self._begins = [one for one in self._begins if one >= offset]

    def check_invariants(self) -> None:
        """Assert that the beginnings ascend, and lie before the end."""
        assert self._begins == sorted(set(self._begins))
        assert all(one < self.end for one in self._begins)
