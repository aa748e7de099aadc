"""Ctrl-C and SIGTERM: the first signal ends the command gracefully, the second one at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from types import TracebackType
from typing import Final, TypeVar

from sharegroup.cli.outcome import ExitCode

T = TypeVar("T")

SIGNALS: Final = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


class Stopping:
    """``with Stopping() as stopping:`` inside a task controls what a signal interrupts.

    The first signal cancels only work that runs through :meth:`unless_stopped`. Acknowledging,
    flushing and closing run outside of it and are completed. The second signal cancels the task
    itself.
    """

    def __init__(self) -> None:
        self.exit_code: ExitCode | None = None  # set by the first signal
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._interruptible = False
        self._forced = False

    def __enter__(self) -> Stopping:
        for number, code in SIGNALS.items():
            self._loop.add_signal_handler(number, self._asked, code)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)

    def asked(self) -> bool:
        """Whether a signal has come."""
        return self.exit_code is not None

    async def unless_stopped(self, work: Awaitable[T]) -> T | None:
        """The result of ``work``, or None if a signal came first and cancelled it."""
        self._interruptible = True
        try:
            if self.asked():
                self._cancel()  # takes effect at the first await of the work
            return await work
        except asyncio.CancelledError:
            if self._forced or not self.asked() or self._task is None:
                raise
            self._task.uncancel()
            return None
        finally:
            self._interruptible = False

    def _asked(self, code: ExitCode) -> None:
        if not self.asked():
            self.exit_code = code
            if self._interruptible:
                self._cancel()
        else:
            self._forced = True
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
