"""Acquired offsets in the application's hands, and what it has said of each so far.

One byte per offset, so that ``accept(record)`` is one assignment and a whole batch is accepted by
one call into C. Nothing here is sent: decided ranges are taken out once, and then count as sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from sharegroup.client.core.acknowledgements import (
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AckType,
    ranges_of,
)
from sharegroup.client.errors import IllegalState
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

if TYPE_CHECKING:
    from sharegroup.client.record import Record

_UNDECIDED: Final = bytes([UNDECIDED])
_ACCEPT: Final = bytes([AckType.ACCEPT])
_RELEASE: Final = bytes([AckType.RELEASE])
_RENEW: Final = bytes([AckType.RENEW])
_DECIDED: Final = bytes([AckType.GAP, AckType.ACCEPT, AckType.RELEASE, AckType.REJECT])
_TO_SENT: Final = bytes.maketrans(_DECIDED, bytes([SENT]) * len(_DECIDED))
_RENEW_RUN: Final = re.compile(_RENEW + b"+")
_UNDECIDED_RUN: Final = re.compile(_UNDECIDED + b"+", re.DOTALL)


class LeaseView(Protocol):
    """Whether the locks of a delivery are gone."""

    lost: bool


class Delivery:
    """One acquired range, ``first`` … ``last``, and its records.

    Attributes:
        types: per offset an ``AckType``, ``UNDECIDED`` or ``SENT``. It begins as GAP everywhere;
            whoever decodes the records marks those that exist as undecided.
        deadline: the loop's time, in seconds, when the lock expires.
    """

    __slots__ = ("deadline", "delivery_count", "first", "lease", "partition", "records", "types")

    def __init__(
        self,
        partition: TopicIdPartition,
        offsets: OffsetRange,
        delivery_count: int,
        lease: LeaseView,
        deadline: float,
    ) -> None:
        self.partition = partition
        self.first = offsets.first
        self.delivery_count = delivery_count
        self.lease = lease
        self.deadline = deadline
        self.types = bytearray(offsets.size)
        self.records: list[Record] = []

    @property
    def last(self) -> int:
        """The last offset, included."""
        return self.first + len(self.types) - 1

    @property
    def undecided(self) -> bool:
        """The application still owes a word on some record."""
        return UNDECIDED in self.types

    def mark(self, first: int, last: int, kind: int) -> None:
        """Set all of these offsets to ``kind``."""
        start = first - self.first
        self.types[start : last - self.first + 1] = bytes([kind]) * (last - first + 1)

    def decide(self, offset: int, kind: AckType) -> None:
        """The application says ``kind`` of one record; before it is sent, it may say something
        else.

        Raises:
            IllegalState: it has been sent, or was never delivered.
        """
        index = offset - self.first
        now = self.types[index]
        if now == AckType.GAP:
            raise IllegalState(f"offset {offset} of {self.partition} was not delivered")
        if now == SENT:
            raise IllegalState(f"offset {offset} of {self.partition} was acknowledged before")
        self.types[index] = kind

    def accept_undecided(self) -> None:
        """ACCEPT for all that nothing was said of."""
        self.types = self.types.replace(_UNDECIDED, _ACCEPT)

    def release_undecided(self) -> None:
        """RELEASE for all that nothing was said of, and for what was to be renewed."""
        self.types = self.types.replace(_UNDECIDED, _RELEASE).replace(_RENEW, _RELEASE)

    def take_decided(self) -> list[AcknowledgedRange]:
        """What can be sent now; it counts as sent from here on. Renewals are not among it."""
        if _RENEW in self.types:
            plain = self.types.replace(_RENEW, _UNDECIDED)
            ranges = ranges_of(self.first, plain)
        else:
            ranges = ranges_of(self.first, self.types)
        self.types = self.types.translate(_TO_SENT)
        return ranges

    def take_renewals(self) -> list[OffsetRange]:
        """The offsets to renew; they are undecided again from here on."""
        ranges = self._ranges(_RENEW_RUN)
        if ranges:
            self.types = self.types.replace(_RENEW, _UNDECIDED)
        return ranges

    def undecided_ranges(self) -> list[OffsetRange]:
        """The offsets that the application still works on."""
        return self._ranges(_UNDECIDED_RUN)

    def _ranges(self, run: re.Pattern[bytes]) -> list[OffsetRange]:
        return [
            OffsetRange(self.first + match.start(), self.first + match.end() - 1)
            for match in run.finditer(self.types)
        ]
