"""When acquisition locks are renewed, and which (KIP-1222). The sending is done by three shells:
``worker/locks.py``, ``share/lock_keeper.py`` and Spark's ``holding/lock_renewal.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.model.errors import InvalidRecordState, KafkaError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.offsets import OffsetRange

RENEWALS_PER_LOCK: Final = 3
"""A lock survives one renewal that fails."""
_LOCK_UNKNOWN_MS: Final = 3_000

Ranges = list[OffsetRange]


class RenewalTimes:
    """All locks of a member are renewed when a third of the lock duration is over since the last
    renewal began.

    Args:
        now_ms: the first third begins now.
        unknown_ms: the lock duration to assume until the broker has told it (``told_ms``).
    """

    def __init__(self, now_ms: float, unknown_ms: int = _LOCK_UNKNOWN_MS) -> None:
        self._began_ms = now_ms
        self._unknown_ms = unknown_ms

    def lock_ms(self, told_ms: int | None) -> int:
        """The lock duration: as the broker has told it, or the assumed one."""
        return told_ms or self._unknown_ms

    def interval_ms(self, told_ms: int | None) -> float:
        """The time between two renewals."""
        return self.lock_ms(told_ms) / RENEWALS_PER_LOCK

    def pause_ms(self, now_ms: float, told_ms: int | None) -> float:
        """The time until the next renewal; 0 if it is due."""
        return max(0.0, self._began_ms + self.interval_ms(told_ms) - now_ms)

    def begin(self, now_ms: float) -> None:
        """A renewal begins."""
        self._began_ms = now_ms


class RenewalsAnswered(NamedTuple):
    """What one request of a round has brought, by partition."""

    renewed: dict[TopicIdPartition, Ranges]
    lost: dict[TopicIdPartition, Ranges]
    """Ranges whose lock is gone; each stands alone, in a request of its own."""
    failed: dict[TopicIdPartition, tuple[Ranges, KafkaError]]
    """Ranges of which the broker has said something else, or nothing."""


class RenewalRound:
    """One renewal of all locks. One record whose lock is gone makes the broker refuse the renewals
    of a whole partition. These are then cut in halves again and again, until that record stands
    alone.

    Args:
        held: what to renew.
        requests_max: the most requests of the round; the ranges left then are neither renewed nor
            lost.
        whole: a range is not cut: if one of its locks is gone, it is lost.
    """

    def __init__(
        self,
        held: Mapping[TopicIdPartition, Sequence[OffsetRange]],
        *,
        requests_max: int | None = None,
        whole: bool = False,
    ) -> None:
        self._waiting = [{partition: list(ranges) for partition, ranges in held.items()}]
        self._requests_left = requests_max
        self._whole = whole

    def next_request(self) -> dict[TopicIdPartition, Ranges]:
        """The ranges to ask for in the next request; empty: the round is over."""
        if not self._waiting or self._requests_left == 0:
            return {}
        if self._requests_left is not None:
            self._requests_left -= 1
        return self._waiting.pop()

    def answered(
        self,
        asked: Mapping[TopicIdPartition, Ranges],
        outcomes: Mapping[TopicIdPartition, KafkaError | None],
    ) -> RenewalsAnswered:
        """Note the outcomes of a request; None is success."""
        answered = RenewalsAnswered({}, {}, {})
        for partition, ranges in asked.items():
            error = outcomes.get(partition)
            if error is None:
                answered.renewed[partition] = ranges
            elif not isinstance(error, InvalidRecordState):
                answered.failed[partition] = ranges, error
            elif (halves := self._halves(ranges)) is not None:
                self._waiting += [{partition: half} for half in reversed(halves)]
            else:
                answered.lost[partition] = ranges
        return answered

    def _halves(self, ranges: Ranges) -> tuple[Ranges, Ranges] | None:
        """The ranges in two parts; None if they are one range that is not to be cut."""
        if len(ranges) > 1:
            middle = len(ranges) // 2
            return ranges[:middle], ranges[middle:]
        [(first, last)] = ranges
        if first == last or self._whole:
            return None
        middle = (first + last) // 2
        return [OffsetRange(first, middle)], [OffsetRange(middle + 1, last)]
