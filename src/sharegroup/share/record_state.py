"""The states of one record in delivery, and the one table of how they change.

Numbers are Kafka's (classes RecordState and AcknowledgeType); they stand in the durable state and
on the wire. A state with no row in the table is terminal; a missing key is a refused verb.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """Where one record stands for one share group."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AckType(IntEnum):
    """What a consumer says about a record (KIP-932, RENEW: KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Verb(IntEnum):
    """What can happen to a record. The first five are the :class:`AckType` of the same number."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    ACQUIRE = 5
    EXHAUST = 6
    """Released, timed out or left by its member, with no delivery left."""
    DISCARD = 7
    """Gone from the log: compacted away."""


TRANSITIONS: Final[dict[tuple[RecordState, Verb], RecordState]] = {
    (RecordState.AVAILABLE, Verb.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, Verb.DISCARD): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, Verb.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Verb.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.RENEW): RecordState.ACQUIRED,
}

TERMINAL: Final = frozenset(RecordState) - {state for state, _ in TRANSITIONS}
