"""The loops over a blocking share consumer: ``for`` over records, batches and Arrow batches.

They accept and release as the loops of :mod:`sharegroup.client.share.loops` do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from sharegroup.client.core.held_deliveries import Iteration
from sharegroup.client.core.record import K, Record, Records, V
from sharegroup.client.share.polling import GIVE_UP_S, SharePolling

if TYPE_CHECKING:
    from sharegroup.client.records.arrow_decode import RecordBatch
    from sharegroup.client.share.arrow_batches import ArrowForm

T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine on the loop's thread, and waits for its result."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``."""


@dataclass(frozen=True, slots=True)
class LoopCalls:
    """What a loop calls of its consumer. It keeps the consumer as long as the loop."""

    run: Run
    tell: Callable[[], None]
    """Calls the acknowledgement callback."""


class Loop(ABC, Generic[T]):
    """The object that one ``for`` goes over."""

    def __init__(self, polling: SharePolling, calls: LoopCalls) -> None:
        self._polling = polling
        self._calls = calls
        self._iteration = Iteration()

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> T:
        """The next item. Raises StopIteration: the loop ends."""

    def _may_ask(self) -> bool:
        self._iteration.asker = get_ident()
        self._calls.tell()
        return self._polling.may_ask(self._iteration)

    def close(self) -> None:
        """Leave the loop: its record or batch in work is released."""
        self._polling.leave(self._iteration)

    def __del__(self) -> None:
        self._polling.leave(self._iteration)


class RecordLoop(Loop[Record[K, V]], Generic[K, V]):
    """Records, one by one."""

    def __init__(self, polling: SharePolling, calls: LoopCalls) -> None:
        super().__init__(polling, calls)
        self._holdings = polling.holdings

    def __next__(self) -> Record[K, V]:
        # A buffered record is returned without a trip to the loop's thread. That is safe: while the
        # application is not inside a call, the loop's thread does not touch its records.
        polling, iteration = self._polling, self._iteration
        iteration.done = given = iteration.given
        while True:
            if given < len(iteration.records) and iteration is self._holdings.iteration:
                if polling.clock() > polling.flush_at:
                    self._calls.run(polling.give_way())
                    continue
                iteration.given = given + 1
                return iteration.records[given]
            if not self._may_ask():
                raise StopIteration
            self._calls.run(polling.next_records(iteration))
            given = 0


class BatchLoop(Loop[Records[K, V]], Generic[K, V]):
    """The results of polls, without the empty ones."""

    def __init__(self, polling: SharePolling, calls: LoopCalls, wait_s: float) -> None:
        super().__init__(polling, calls)
        self._wait_s = wait_s

    def __next__(self) -> Records[K, V]:
        while self._may_ask():
            records = self._calls.run(self._polling.poll_records(self._wait_s, self._iteration))
            if records:
                return records
        raise StopIteration


class ArrowLoop(Loop["RecordBatch"]):
    """Arrow batches, until no batch has come for ``idle_timeout_ms``; None: endless."""

    def __init__(
        self,
        polling: SharePolling,
        calls: LoopCalls,
        max_records: int,
        include_headers: bool,
        idle_timeout_ms: int | None,
    ) -> None:
        super().__init__(polling, calls)
        self._columns = (max_records, include_headers)
        self._wait_s = GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        self._form: ArrowForm | None = None

    def __next__(self) -> RecordBatch:
        polling = self._polling
        if self._form is None:
            self._form = polling.arrow_form(*self._columns)
        while self._may_ask():
            batch = self._calls.run(polling.poll_arrow(self._form, self._wait_s, self._iteration))
            if batch is not None:
                return batch
            if polling.assigned:
                self.close()
        raise StopIteration
