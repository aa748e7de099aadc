"""Refreshes a description until Ctrl-C: ``--watch``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sharegroup.cli.outcome import ExitCode, complain
from sharegroup.cli.output import Output
from sharegroup.cli.stopping import Stopping
from sharegroup.model.errors import RetriableError

T = TypeVar("T")

ANSWER_S: Final = 5.0
"""The time-out of one refresh, in seconds; after that the next refresh is tried."""
_CLEAR: Final = "\x1b[2J\x1b[H"


async def watch(
    ask: Callable[[], Awaitable[T]], show: Callable[[T], object], every_s: float
) -> ExitCode:
    """Call ``ask`` and ``show`` every ``every_s`` seconds: on a terminal in the same place,
    elsewhere one output after the other. Transient errors are printed, and the next refresh is
    tried. Ctrl-C, or the end of the reader, ends it with status 0.

    Raises:
        SharegroupError: an error of ``ask`` that is not transient.
    """
    with Stopping() as stopping, Output() as output:
        while not (stopping.asked() or output.closed):
            try:
                async with asyncio.timeout(ANSWER_S):
                    found = await stopping.unless_stopped(_boxed(ask))
            except (RetriableError, TimeoutError) as error:
                complain(str(error) or f"no answer in {ANSWER_S:.0f} s")
            else:
                if found is not None:
                    if sys.stdout.isatty():
                        print(_CLEAR, end="")
                    show(found[0])
                    sys.stdout.flush()
            await stopping.unless_stopped(output.unless_closed(asyncio.sleep(every_s)))
    return ExitCode.TERMINATED if stopping.exit_code is ExitCode.TERMINATED else ExitCode.DONE


async def _boxed(ask: Callable[[], Awaitable[T]]) -> tuple[T]:
    """The answer in a tuple, so that it differs from None."""
    return (await ask(),)
