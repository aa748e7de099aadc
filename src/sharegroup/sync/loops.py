"""The loops over a blocking share consumer: ``for`` over records, batches and Arrow batches.

They accept and release as the loops of :mod:`sharegroup.client.share.loops` do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sharegroup.client.core.held_deliveries import Iteration
from sharegroup.client.core.record import K, Record, Records, V

if TYPE_CHECKING:
    from sharegroup.client.records.arrow_decode import RecordBatch
    from sharegroup.client.share.arrow_batches import ArrowForm
    from sharegroup.sync.share_consumer import ShareConsumer

T = TypeVar("T")


class Loop(ABC, Generic[T]):
    """The object that one ``for`` goes over."""

    def __init__(self, consumer: ShareConsumer[Any, Any]) -> None:
        self._consumer = consumer
        self._inner = consumer._inner
        self._iteration = Iteration()

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> T:
        """The next item. Raises StopIteration: the loop ends."""

    def _may_ask(self) -> bool:
        self._iteration.asker = get_ident()
        self._consumer._tell()
        return self._inner._may_ask(self._iteration)

    def close(self) -> None:
        """Leave the loop: its record or batch in work is released."""
        self._inner._leaving.leave(self._iteration)

    def __del__(self) -> None:
        self._inner._leaving.leave(self._iteration)


class RecordLoop(Loop[Record[K, V]], Generic[K, V]):
    """Records, one by one."""

    def __next__(self) -> Record[K, V]:
        # A buffered record is returned without a trip to the loop's thread. That is safe: while the
        # application is not inside a call, the loop's thread does not touch its records.
        inner, iteration = self._inner, self._iteration
        iteration.done = given = iteration.given
        while True:
            if given < len(iteration.records) and iteration is inner._holdings.iteration:
                if inner._clock() > inner._flush_at:
                    self._consumer._run(inner._give_way())
                    continue
                iteration.given = given + 1
                return iteration.records[given]
            if not self._may_ask():
                raise StopIteration
            self._consumer._run(inner._next_records(iteration))
            given = 0


class BatchLoop(Loop[Records[K, V]], Generic[K, V]):
    """The results of polls, without the empty ones."""

    def __init__(self, consumer: ShareConsumer[Any, Any], wait_s: float) -> None:
        super().__init__(consumer)
        self._wait_s = wait_s

    def __next__(self) -> Records[K, V]:
        while self._may_ask():
            records = self._consumer._run(self._inner._poll_records(self._wait_s, self._iteration))
            if records:
                return records
        raise StopIteration


class ArrowLoop(Loop["RecordBatch"]):
    """Arrow batches, until no batch has come for ``wait_s``."""

    def __init__(
        self,
        consumer: ShareConsumer[Any, Any],
        max_records: int,
        include_headers: bool,
        wait_s: float,
    ) -> None:
        super().__init__(consumer)
        self._columns = (max_records, include_headers)
        self._wait_s = wait_s
        self._form: ArrowForm | None = None

    def __next__(self) -> RecordBatch:
        inner = self._inner
        if self._form is None:
            self._form = inner._arrow_form(*self._columns)
        while self._may_ask():
            batch = self._consumer._run(
                inner._poll_arrow(self._form, self._wait_s, self._iteration)
            )
            if batch is not None:
                return batch
            if inner.assignment:
                self.close()
        raise StopIteration
