"""Records that failed for good, and whose dead letters are still to be written (KIP-1191)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

_WEIGHT: Final = 40
"""The bytes of their numbers, and of lengths."""


class Cause(IntEnum):
    """Why a record failed for good. The numbers are in durable state."""

    REJECTED = 1
    """A member rejected it."""
    RELEASED = 2
    """A member released it at the delivery limit."""
    LOCK_EXPIRED = 3
    """Its acquisition lock ended at the delivery limit."""
    SESSION_ENDED = 4
    """Its member left, or was lost, at the delivery limit."""
    OPERATOR = 5
    """An operator gave it up."""
    UNKNOWN = 6
    """Another broker, which kept no cause, gave it up."""
    EXPIRED = 7
    """It was worthless before it was done: by its age, or by its header."""

    @property
    def word(self) -> str:
        """The cause as headers, metric labels and tables show it."""
        return self.name.lower().replace("_", "-")


class DeadRecords(NamedTuple):
    """The records ``first`` … ``last``, both included, which failed in one call for one cause."""

    first: int
    last: int
    delivery_count: int
    cause: Cause
    member_id: str
    """The member that held them; empty if no member did."""
    reason: str = ""
    """What the member said; empty if it said nothing."""
    failed_ms: int = -1
    """When they failed, in milliseconds since 1970."""

    @property
    def size(self) -> int:
        """How many records they are."""
        return self.last - self.first + 1

    @property
    def weight(self) -> int:
        """About how many bytes they take in durable state."""
        return _WEIGHT + len(self.member_id) + len(self.reason)

    @property
    def key(self) -> DeadKey:
        """What names them in durable state."""
        return DeadKey(self.first, self.failed_ms)


class DeadKey(NamedTuple):
    """Names dead records of one share partition. An offset alone is no name: after a reset of the
    group's offsets a record may fail a second time while its first dead letter is not written.
    """

    first: int
    failed_ms: int
