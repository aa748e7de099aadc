"""The delivery states of a record, and the table of their transitions.

Numbers are Kafka's (classes RecordState and AcknowledgeType); they are used in durable state and on
the wire. A state without a row in the table is terminal; a verb without a row is refused.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from sharegroup.model.ack_type import AckType as AckType


class RecordState(IntEnum):
    """The delivery state of one record in one share group."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4
    DELAYED = 5
    """Available once its pause is over. Not Kafka's: durable state has AVAILABLE, and the time
    beside it."""

    __hash__ = int.__hash__  # an enum's own hash is a Python call


class Verb(IntEnum):
    """What can happen to a record. The first five are the :class:`AckType` of the same number."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    ACQUIRE = 5
    EXHAUST = 6
    """Released, lock expired or session ended, at the delivery limit."""
    DISCARD = 7
    """Gone from the log: compacted away."""
    DELAY = 8
    """Released, lock expired or session ended, and not to be delivered before its pause is over."""
    DUE = 9
    """Its pause is over."""
    EXPIRE = 10
    """Nobody holds it, and it is worthless by now."""


# Python 3.11 reads a member of an enum by a Python call, and a name of a module without a call.
# These names are for code that runs for each request.
AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
DELAYED: Final = RecordState.DELAYED
RELEASE: Final = Verb.RELEASE
DELAY: Final = Verb.DELAY
DUE: Final = Verb.DUE
RENEW: Final = Verb.RENEW
EXHAUST: Final = Verb.EXHAUST

TRANSITIONS: Final[dict[tuple[RecordState, Verb], RecordState]] = {
    (RecordState.AVAILABLE, Verb.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, Verb.DISCARD): RecordState.ARCHIVED,
    (RecordState.AVAILABLE, Verb.EXPIRE): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, Verb.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, Verb.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.GAP): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, Verb.RENEW): RecordState.ACQUIRED,
    (RecordState.ACQUIRED, Verb.DELAY): RecordState.DELAYED,
    (RecordState.DELAYED, Verb.DUE): RecordState.AVAILABLE,
    (RecordState.DELAYED, Verb.DISCARD): RecordState.ARCHIVED,
    (RecordState.DELAYED, Verb.EXPIRE): RecordState.ARCHIVED,
}

TERMINAL: Final = frozenset(RecordState) - {state for state, _ in TRANSITIONS}


def released(delivery_count: int, delivery_count_limit: int, *, delays: bool = False) -> Verb:
    """What a release or an ended lock does to a record that was delivered ``delivery_count`` times:
    RELEASE, or DELAY if such records rest (``delays``), or EXHAUST at the delivery limit."""
    if delivery_count >= delivery_count_limit:
        return EXHAUST
    return DELAY if delays else RELEASE
