"""File descriptors of this process: raises their limit, and keeps the log quiet when a connection
cannot be accepted because no descriptor is left."""

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
"""After this long without a refused connection, the next one is logged again."""

_ACCEPTING: Final = "socket.accept() out of system resource"
"""The message of asyncio's own loop; uvloop logs none."""
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def descriptor_limit() -> int:
    """The current limit on descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one if the system allows it; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of file descriptors stays at %d: %s", soft, error)
    return descriptor_limit()


class QuietAccepting:
    """An event loop's exception handler for connections refused because no descriptor is left.

    It logs one line per episode, without a traceback. The loop itself waits for a second before it
    accepts again, or closes the connections that it cannot keep.
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
