"""SIGTERM and SIGINT while workers run on the event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

log = logging.getLogger("sharegroup.worker")

Call = Callable[[], None]


class _Listeners:
    """The functions that one signal of a loop calls. ``before`` is the handler to put back when the
    last function is gone; None: it was not set from Python."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.calls: list[Call] = []

    def call_all(self) -> None:
        """A signal has come."""
        for call in list(self.calls):
            call()


_listening: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Listeners]]] = (
    WeakKeyDictionary()
)


@contextmanager
def answering_signals(signals: Iterable[signal.Signals], call: Call) -> Iterator[None]:
    """Each of ``signals`` calls ``call`` on the loop, and the functions of all other workers on the
    same loop. When the last of these workers has ended, in whatever order, the handler from before
    the first one is back. Only the main thread hears signals: in another thread this does nothing.
    """
    loop = asyncio.get_running_loop()
    heard = []
    for one in signals:
        try:
            _listen(loop, one, call)
        except (ValueError, RuntimeError) as error:
            log.debug("signals do not stop this worker: %s", error)
            break
        heard.append(one)
    try:
        yield
    finally:
        for one in heard:
            _leave(loop, one, call)


def _listen(loop: asyncio.AbstractEventLoop, one: signal.Signals, call: Call) -> None:
    own = _listening.setdefault(loop, {})
    listeners = own.get(one)
    if listeners is None:
        listeners = _Listeners(signal.getsignal(one))
        loop.add_signal_handler(one, listeners.call_all)
        own[one] = listeners
    listeners.calls.append(call)


def _leave(loop: asyncio.AbstractEventLoop, one: signal.Signals, call: Call) -> None:
    listeners = _listening[loop][one]
    listeners.calls.remove(call)
    if listeners.calls:
        return
    del _listening[loop][one]
    loop.remove_signal_handler(one)
    if listeners.before is not None:
        signal.signal(one, listeners.before)
