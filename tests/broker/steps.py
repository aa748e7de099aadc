"""Work counted in calls of functions: how much one step of the event loop does."""

from __future__ import annotations

import sys
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Steps:
    """The steps of this thread's event loop while :func:`counted` is open."""

    def __init__(self) -> None:
        self.largest = 0
        """Calls of the largest step."""
        self.count = 0
        self._calls = 0

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Handle._run.__code__:
            self.end()
            self.count += 1
        elif event in ("call", "c_call"):
            self._calls += 1

    def end(self) -> None:
        """The current step has ended."""
        self.largest = max(self.largest, self._calls)
        self._calls = 0


@contextmanager
def counted() -> Iterator[Steps]:
    """Count the calls of each step, by Python and C functions."""
    steps = Steps()
    sys.setprofile(steps._event)
    try:
        yield steps
    finally:
        sys.setprofile(None)
        steps.end()
