"""A worker's failures in the log: each with its record's place and its traceback, but no more
failures than somebody can read.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Final

log = logging.getLogger("sharegroup.worker")

WINDOW_S: Final = 10.0
PER_WINDOW_MAX: Final = 20
NAMES_MAX: Final = 5
"""How many records one log line names."""


def said_of(error: BaseException, *, with_traceback: bool = False) -> str:
    """What a dead letter says of an exception: its type and text, or its traceback."""
    if with_traceback:
        return "".join(traceback.format_exception(error)).rstrip()
    text = text_of(error)
    return f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__


def text_of(error: BaseException, form: Callable[[BaseException], str] = str) -> str:
    """The text of an exception of the application, whose class may fail to tell it."""
    try:
        return form(error)
    except Exception:  # noqa: BLE001  # the application's code may raise anything
        return f"<a {type(error).__qualname__} that has no text>"


def named(names: Sequence[str]) -> str:
    """Some of these names, and how many more there are."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


class FailureLog:
    """At most ``PER_WINDOW_MAX`` lines in ``WINDOW_S`` seconds; the first line after that time says
    how many were left out.

    Args:
        now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._count = 0

    def note(self, text: str, error: BaseException | None = None) -> None:
        """Log a WARNING, with the traceback of ``error``."""
        now = self._now()
        if now >= self._began + WINDOW_S:
            left_out = max(0, self._count - PER_WINDOW_MAX)
            if left_out:
                log.warning("%d more failures were not logged", left_out)
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= PER_WINDOW_MAX:
            log.warning("%s", text, exc_info=error)


def lost_with_session(names: list[str], kept: list[str]) -> str:
    """What happened to these records, and to those whose results are ``kept``."""
    end = "these records are redelivered"
    if kept:
        end += (
            f"; the results of {named(kept)} are kept, and answer for their records if these come "
            "back to this worker"
        )
    return f"the connection or session was lost, and the locks of {named(names)} with it: {end}"
