"""Runs a worker's handler for one record, and says what went wrong."""

from __future__ import annotations

import asyncio
import inspect

from sharegroup.client.records.decode import Decoding, deserialized
from sharegroup.client.worker.handler_kinds import NOT_AWAITED, PlainHandler
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.settings import Handler
from sharegroup.client.worker.work import Work


class Handling:
    """See the module.

    Args:
        handler: awaited with each record.
        limit_s: a handler that takes longer has failed; None: no limit.
        decoding: the consumer's deserializers.
        metrics: is told how long handlers take.
    """

    def __init__(
        self, handler: Handler, limit_s: float | None, decoding: Decoding, metrics: WorkerMetrics
    ) -> None:
        self._handler = handler
        self._limit_s = limit_s
        self._decoding = decoding
        self._metrics = metrics
        self._now = asyncio.get_running_loop().time

    async def failure_of(self, work: Work) -> Exception | None:
        """Run the handler. Returns what it raised; None: it returned.

        Raises:
            PlainHandler: it cannot be awaited.
        """
        began = self._now()
        try:
            async with asyncio.timeout(self._limit_s) as limit:
                awaited = self._handler(deserialized(work.record, self._decoding))
                if not inspect.isawaitable(awaited):
                    raise PlainHandler(NOT_AWAITED)
                await awaited
        except PlainHandler:
            raise
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return RuntimeError("the handler cancelled itself")
        except Exception as error:  # noqa: BLE001  # the application's code may raise anything
            if isinstance(error, TimeoutError) and limit.expired():
                return TimeoutError(f"the handler took longer than {self._limit_s} s")
            return error
        finally:
            self._metrics.handler_took(self._now() - began)
        return None


def is_cancelled() -> bool:
    """Whether somebody cancels this task: its handler may as well await what was cancelled."""
    me = asyncio.current_task()
    return me is not None and me.cancelling() > 0
