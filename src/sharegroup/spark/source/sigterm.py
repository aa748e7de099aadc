"""Handles SIGTERM in a process that runs sources: Spark ends it by SIGTERM, without ``stop()``.

While a source runs, SIGTERM leaves through the ``finally`` that stops the source. While a source
stops, SIGTERM waits. When the last source has stopped, the previous handler is restored. Only a
main thread can handle signals: in other threads all this does nothing.

A killed Spark sends no signal. Its source process would live until it next writes to Spark, perhaps
minutes later. So the process checks for its parent once a second, and ends in order when the parent
is gone.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

PARENT_SECONDS: Final = 1.0
_running: set[int] = set()
_before: Any = signal.SIG_DFL
_stopped = threading.Event()


def source_started(source: object) -> None:
    """From now on SIGTERM ends the process in order."""
    global _before
    if threading.current_thread() is not threading.main_thread():
        return
    previous = signal.signal(signal.SIGTERM, _end_in_order)
    if not _running:
        _before = previous
        _stopped.clear()
        watch = threading.Thread(
            target=_end_with, args=(os.getppid(),), name="share-parent", daemon=True
        )
        watch.start()
    _running.add(id(source))


@contextmanager
def source_stopping(source: object) -> Iterator[None]:
    """The source releases its records; delay a SIGTERM that comes meanwhile."""
    ours = id(source) in _running and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        if ours:
            _running.discard(id(source))
            if not _running:
                _stopped.set()
            signal.signal(signal.SIGTERM, _end_in_order if _running else _before)


def _end_with(parent: int) -> None:
    """End this process in order when its parent is gone."""
    while not _stopped.wait(PARENT_SECONDS):
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _end_in_order(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
