"""How many records of one key go out at once, by how often records fail."""

from __future__ import annotations

from math import isqrt

_WEIGHT = 4
"""The last failure counts for one part in so many."""
_FIRST = 100
"""So many records are taken to lie between two failures before the first one: it says little."""
UNBOUNDED = 2**31


class Pace:
    """Follows the failures of one share partition.

    A failure takes back what its member holds of the key behind it, on average half of what goes
    out at once; to send fewer at once costs more fetches. With one failure in n records and w at
    once, n records cost w / 2 records sent again, and n / w fetches: together the least for
    w = √(2n). So a group whose records never fail has no bound but the setting's.
    """

    __slots__ = ("_mean", "_since")

    def __init__(self) -> None:
        self._mean: int | None = None
        """Records that are finished between two failures; None: none has failed."""
        self._since = 0
        """Records that were finished since the last failure."""

    @property
    def most(self) -> int:
        """How many records of a key go out at once, at least 1."""
        if self._mean is None:
            return UNBOUNDED
        return max(1, isqrt(2 * max(self._mean, self._since)))

    def answered(self, finished: int, failed: int) -> None:
        """One request has finished so many records, and for so many failures began."""
        self._since += finished
        if failed:
            apart = self._since // failed
            mean = _FIRST if self._mean is None else self._mean
            self._mean = (mean * (_WEIGHT - 1) + apart) // _WEIGHT
            self._since = 0
