"""A limit of a rate: so many a second, without bursts."""

from __future__ import annotations


class Pace:
    """Says how long to wait before the next ones, so that on average not more than ``rate`` a
    second pass. Time is an argument, in seconds."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due_s = 0.0

    def wait_s(self, number: int, now_s: float) -> float:
        """How long to wait before ``number`` of them pass; they count as passed."""
        begin_s = max(self._due_s, now_s)
        self._due_s = begin_s + number / self._rate
        return begin_s - now_s
