"""How many records of one key go out at once, by how often records fail."""

from __future__ import annotations

from math import isqrt

_WEIGHT = 4
"""The latest distance between two failures weighs one part in this many in the mean."""
_FIRST = 100
"""The mean that is assumed until the first failure, since one failure alone says little."""
UNBOUNDED = 2**31


class Pace:
    """Follows the failures of one share partition.

    A failure takes back the later records of its key that the member holds: on average half of the
    records that go out at once. To send fewer at once costs more fetches. With one failure in n
    records and w records at once, n records cost w / 2 records sent again, and n / w fetches; the
    sum is least for w = √(2n). A group whose records never fail is bounded by the setting only.
    """

    __slots__ = ("_mean", "_since")

    def __init__(self) -> None:
        self._mean: int | None = None
        """How many records are finished between two failures; None: no record has failed."""
        self._since = 0
        """Records that were finished since the last failure."""

    @property
    def most(self) -> int:
        """How many records of a key go out at once, at least 1."""
        if self._mean is None:
            return UNBOUNDED
        return max(1, isqrt(2 * max(self._mean, self._since)))

    def answered(self, finished: int, failed: int) -> None:
        """A request has finished ``finished`` records, and ``failed`` keys began to fail."""
        self._since += finished
        if failed:
            apart = self._since // failed
            mean = _FIRST if self._mean is None else self._mean
            self._mean = (mean * (_WEIGHT - 1) + apart) // _WEIGHT
            self._since = 0
