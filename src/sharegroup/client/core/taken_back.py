"""Order per key (``share.ordering=key``): which fetched records the broker has taken back.

When a record is released, the broker takes back the later ones of its key that the member holds. A
fetch that was under way may still bring some of these. The numbers of the requests tell which: a
record that was fetched before the release took effect is *stale*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.model.ids import TopicIdPartition

_RELEASES_MAX: Final = 10_000


class AcknowledgementsAnswered(Protocol):
    """What the broker has answered about acknowledgements of one partition, in which request."""

    @property
    def partition(self) -> TopicIdPartition: ...
    @property
    def ranges(self) -> Sequence[AcknowledgedRange]: ...
    @property
    def request(self) -> int: ...


class TakenBack:
    """See the module. Every release that is noted must be answered once."""

    def __init__(self) -> None:
        self._released: dict[tuple[TopicIdPartition, bytes], tuple[int, int | None]] = {}
        """By key: the offset of the record that was released last, and the number of the request
        that released it; None: the broker has not answered to that request yet."""
        self._unanswered: dict[TopicIdPartition, dict[int, bytes]] = {}
        """The releases that the broker has not answered to: offset → key."""

    def __bool__(self) -> bool:
        return bool(self._released)

    def is_stale(self, partition: TopicIdPartition, key: bytes, offset: int, request: int) -> bool:
        """Whether the broker has taken this record back, or will take it back: this request fetched
        it before the release of an earlier record of its key took effect."""
        released = self._released.get((partition, key))
        if released is None:
            return False
        first, answered = released
        if offset > first and (answered is None or request < answered):
            return True
        if answered is not None:
            del self._released[partition, key]
        return False

    def released(self, partition: TopicIdPartition, key: bytes, offset: int) -> None:
        """The application gives this record back."""
        if len(self._released) >= _RELEASES_MAX:
            self._released = {at: one for at, one in self._released.items() if one[1] is None}
        self._released[partition, key] = (offset, None)
        self._unanswered.setdefault(partition, {})[offset] = key

    def withdrawn(self, partition: TopicIdPartition, key: bytes, offset: int) -> None:
        """The record is not given back after all: the application changed its mind in time."""
        if self._unanswered.get(partition, {}).pop(offset, None) is None:
            return
        if self._released.get((partition, key)) == (offset, None):
            del self._released[partition, key]

    def answered(self, answer: AcknowledgementsAnswered) -> None:
        """The releases among these acknowledgements have taken effect, or never will."""
        asked = self._unanswered.get(answer.partition)
        if not asked:
            return
        for offset, key in list(asked.items()):
            if any(first <= offset <= last for first, last, _ in answer.ranges):
                del asked[offset]
                if self._released.get((answer.partition, key)) == (offset, None):
                    self._released[answer.partition, key] = (offset, answer.request)
