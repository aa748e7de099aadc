"""File descriptors of this process: as many as the system lets it have, and quiet when it has none
left for one more connection."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
from collections.abc import Callable
from typing import Any, Final

from sharegroup.model.environment import NO_LIMIT

logger = logging.getLogger("sharegroup.broker")

SILENCE_S: Final = 60.0
"""Connections that could not be accepted are news again after so long without one."""

_ACCEPTING: Final = "socket.accept() out of system resource"
"""What asyncio's own loop says; uvloop says nothing."""
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def descriptor_limit() -> int:
    """How many descriptors this process may have at this moment."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one where the system lets us; the limit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of file descriptors stays at %d: %s", soft, error)
    return descriptor_limit()


class QuietAccepting:
    """An exception handler of an event loop: a connection that could not be accepted for want of a
    descriptor is said once per episode, without a traceback. The loop itself waits for a second
    before it accepts again, or closes what it cannot keep.
    """

    def __init__(self, refused: Callable[[], None]) -> None:
        self._refused = refused
        self._last_s: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """See ``loop.set_exception_handler``."""
        error = context.get("exception")
        accepting = context.get("message") == _ACCEPTING
        if not accepting or not isinstance(error, OSError) or error.errno not in _NONE_LEFT:
            loop.default_exception_handler(context)
            return
        self._refused()
        now_s = loop.time()
        if self._last_s is None or now_s - self._last_s >= SILENCE_S:
            logger.warning("connections cannot be accepted for now: %s", error.strerror)
        self._last_s = now_s
