"""Acquired offsets held by the application, and the acknowledgement of each so far.

One byte per offset, so that ``accept(record)`` is one assignment and a whole batch is accepted by
one call into C. Nothing here is sent: decided ranges are taken out once, and then count as sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Protocol

from sharegroup.client.core.acknowledgements import (
    KEPT,
    RENEWING,
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AckType,
    ranges_of,
)
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

if TYPE_CHECKING:
    from sharegroup.client.records.record import Record

_UNDECIDED: Final = bytes([UNDECIDED])
_KEPT: Final = bytes([KEPT])
_ACCEPT: Final = bytes([AckType.ACCEPT])
_RELEASE: Final = bytes([AckType.RELEASE])
_RENEW: Final = bytes([AckType.RENEW])
_RENEWING: Final = bytes([RENEWING])
_DECIDED: Final = bytes([AckType.GAP, AckType.ACCEPT, AckType.RELEASE, AckType.REJECT])
_TO_SENT: Final = bytes.maketrans(_DECIDED, bytes([SENT]) * len(_DECIDED))
_RENEW_RUN: Final = re.compile(_RENEW + b"+")
_NOT_SAID: Final = (UNDECIDED, KEPT)
_HELD_RUN: Final = re.compile(b"[" + _UNDECIDED + _RENEWING + _KEPT + b"]+")


class LeaseView(Protocol):
    """Whether the locks of a delivery are gone, and which node gave them."""

    lost: bool

    @property
    def node_id(self) -> int: ...


class Delivery:
    """One acquired range, ``first`` … ``last``, and its records.

    Attributes:
        types: per offset an ``AckType``, ``UNDECIDED``, ``RENEWING``, ``KEPT`` or ``SENT``. It
            begins as GAP everywhere; the decoder marks existing records as undecided.
        deadline: when the lock expires, in seconds of the event loop's time.
        error: why the record here cannot be read; its acknowledgement is decided, but the
            application may change it.
        held: the application holds it, or held it.
        request: the number of the fetch that brought it, among the requests of this process.
        keys: with order per key, the key of each record that has one, by offset; None: the group
            has no order.
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "error",
        "first",
        "held",
        "keys",
        "lease",
        "partition",
        "records",
        "request",
        "topic_partition",
        "types",
    )

    def __init__(
        self,
        partition: TopicIdPartition,
        topic_partition: TopicPartition,
        offsets: OffsetRange,
        delivery_count: int,
        lease: LeaseView,
        deadline: float,
        request: int = 0,
        keys: dict[int, bytes] | None = None,
    ) -> None:
        self.partition = partition
        self.topic_partition = topic_partition
        self.first = offsets.first
        self.delivery_count = delivery_count
        self.lease = lease
        self.deadline = deadline
        self.request = request
        self.keys = keys
        self.types = bytearray(offsets.size)
        self.records: list[Record[Any, Any]] = []
        self.error: SharegroupError | None = None
        self.held: object | None = None

    @property
    def last(self) -> int:
        """The last offset, included."""
        return self.first + len(self.types) - 1

    @property
    def undecided(self) -> bool:
        """Some record is not acknowledged yet."""
        return UNDECIDED in self.types

    @property
    def finished(self) -> bool:
        """No acknowledgement is left to send."""
        open_types = (UNDECIDED, AckType.RENEW, RENEWING, KEPT)
        return not any(kind in self.types for kind in open_types)

    def part(self, first: int, last: int) -> Delivery:
        """A delivery of only these offsets, all of them GAP, without records."""
        keys = self.keys
        if keys is not None:
            keys = {offset: key for offset, key in keys.items() if first <= offset <= last}
        return Delivery(
            self.partition,
            self.topic_partition,
            OffsetRange(first, last),
            self.delivery_count,
            self.lease,
            self.deadline,
            self.request,
            keys,
        )

    def within(self, offsets: OffsetRange) -> list[Record[Any, Any]]:
        """The records that have one of these offsets."""
        return [one for one in self.records if offsets.first <= one.offset <= offsets.last]

    def forget_records(self) -> None:
        """Drop the records when they are no longer needed. Records and delivery refer to each
        other: otherwise millions of them would wait for the garbage collector.
        """
        self.records = []

    def mark(self, first: int, last: int, kind: int) -> None:
        """Set all of these offsets to ``kind``."""
        start = first - self.first
        self.types[start : last - self.first + 1] = bytes([kind]) * (last - first + 1)

    def is_behind(self, offset: int, key: bytes, after: int) -> bool:
        """With order per key: whether the record at ``offset`` has this key, comes after the record
        at ``after``, and is not acknowledged yet."""
        return (
            offset > after
            and self.keys is not None
            and self.keys.get(offset) == key
            and self.types[offset - self.first] in _NOT_SAID
        )

    def drop(self, offsets: Collection[int], kind: int) -> None:
        """Keep the records at these offsets from the application, with ``kind`` as their type."""
        for offset in offsets:
            self.types[offset - self.first] = kind
        gone = set(offsets)
        self.records = [one for one in self.records if one.offset not in gone]

    def decide(self, offset: int, kind: AckType) -> None:
        """Acknowledge one record with ``kind``, which can be changed until it is sent.

        Raises:
            IllegalState: the acknowledgement was sent, or the record was never delivered.
        """
        index = offset - self.first
        now = self.types[index]
        if now == AckType.GAP:
            raise IllegalState(f"offset {offset} of {self.topic_partition} was not delivered")
        if now == SENT:
            raise IllegalState(f"offset {offset} of {self.topic_partition} was acknowledged before")
        if now == RENEWING:
            raise IllegalState(
                f"offset {offset} of {self.topic_partition} must be returned again first"
            )
        if kind is AckType.RENEW and self.error is not None:
            raise IllegalState(f"offset {offset} of {self.topic_partition} cannot be renewed")
        self.types[index] = kind

    def accept_undecided(self) -> None:
        """ACCEPT for all undecided records."""
        self.types = self.types.replace(_UNDECIDED, _ACCEPT)

    def accept_first(self, count: int) -> None:
        """As :meth:`accept_undecided`, for the first ``count`` records only."""
        if count >= len(self.records):
            self.accept_undecided()
            return
        end = self.records[count].offset - self.first
        self.types[:end] = self.types[:end].replace(_UNDECIDED, _ACCEPT)

    def release_given(self) -> None:
        """RELEASE for undecided records that the application was given."""
        self.types = self.types.replace(_UNDECIDED, _RELEASE)

    def release_undecided(self) -> None:
        """RELEASE for all records without a final acknowledgement."""
        for open_type in (_UNDECIDED, _RENEW, _RENEWING, _KEPT):
            self.types = self.types.replace(open_type, _RELEASE)

    def keep_from(self, offset: int) -> None:
        """The undecided records from this offset on were not given to the application."""
        at = offset - self.first
        self.types[at:] = self.types[at:].replace(_UNDECIDED, _KEPT)

    def give_kept(self) -> None:
        """The application is given the kept records."""
        self.types = self.types.replace(_KEPT, _UNDECIDED)

    def release_kept(self) -> None:
        """RELEASE for the kept records."""
        self.types = self.types.replace(_KEPT, _RELEASE)

    def take_decided(self) -> list[AcknowledgedRange]:
        """The ranges that can be sent now, without renewals. From here on they count as sent."""
        types = self.types.replace(_RENEW, _RENEWING) if _RENEW in self.types else self.types
        ranges = ranges_of(self.first, types)
        self.types = self.types.translate(_TO_SENT)
        return ranges

    def take_renewals(self) -> list[OffsetRange]:
        """The offsets to renew. They cannot be acknowledged until :meth:`renewed`."""
        ranges = self._ranges(_RENEW_RUN)
        if ranges:
            self.types = self.types.replace(_RENEW, _RENEWING)
        return ranges

    def held_ranges(self) -> list[OffsetRange]:
        """The offsets whose locks the application still needs."""
        return self._ranges(_HELD_RUN)

    def _ranges(self, run: re.Pattern[bytes]) -> list[OffsetRange]:
        return [
            OffsetRange(self.first + match.start(), self.first + match.end() - 1)
            for match in run.finditer(self.types)
        ]
