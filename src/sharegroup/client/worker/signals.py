"""SIGTERM and SIGINT while a worker runs on the event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

log = logging.getLogger("sharegroup.worker")


@contextmanager
def answering_signals(
    signals: Iterable[signal.Signals], call: Callable[[], None]
) -> Iterator[None]:
    """Each of ``signals`` calls ``call`` on the loop; what was there before is there again
    afterwards. Only the main thread hears signals: in another one this does nothing.
    """
    loop = asyncio.get_running_loop()
    before = {}
    for one in signals:
        handler = signal.getsignal(one)
        try:
            loop.add_signal_handler(one, call)
        except (ValueError, RuntimeError) as error:
            log.debug("signals do not stop this worker: %s", error)
            break
        before[one] = handler
    try:
        yield
    finally:
        for one, handler in before.items():
            loop.remove_signal_handler(one)
            if handler is not None:  # None: it was not set from Python
                signal.signal(one, handler)
