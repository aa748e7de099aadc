"""Collects outcomes of acknowledgements, and reports them when the application makes a call."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sharegroup.client.core.fetched import Acknowledged
from sharegroup.client.errors import IllegalState
from sharegroup.cooperative.intervals import minus
from sharegroup.model.errors import InvalidRecordState, KafkaError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

log = logging.getLogger("sharegroup.client")

AckCallback = Callable[[Mapping[TopicPartition, Sequence[OffsetRange]], KafkaError | None], None]
"""Called with ({partition: offset ranges}, None or why all these acknowledgements failed)."""
_GONE_BACK: Final = InvalidRecordState(
    "a release of an earlier record of the key took these back: they are delivered again"
)


class CommitCallback:
    """Kafka class AcknowledgementCommitCallbackHandler. The callback runs on the application's task
    or thread, inside ``poll``, ``commit`` and ``close``. It must not use the consumer. Its
    exceptions are only logged.

    Args:
        name_of: gives a partition its topic's name.
    """

    def __init__(
        self, callback: AckCallback | None, name_of: Callable[[TopicIdPartition], TopicPartition]
    ) -> None:
        self._callback = callback
        self._name_of = name_of
        self._outcomes: deque[Acknowledged] = deque()
        self._entered = False
        self.elsewhere = False
        """The callback runs elsewhere: in the blocking consumer, on its own thread."""
        self.watcher: Callable[[Acknowledged], None] | None = None
        """Called with each outcome as soon as it is known."""

    def replace(self, callback: AckCallback | None) -> None:
        """Set or remove the callback. Outcomes collected without a callback are dropped."""
        self._callback = callback
        if callback is None:
            self._outcomes.clear()

    def note(self, outcome: Acknowledged) -> None:
        """Collect the outcome of acknowledgements."""
        if self.watcher is not None:
            self.watcher(outcome)
        if self._callback is not None:
            self._outcomes.append(outcome)

    def check_outside(self) -> None:
        """Refuse calls from inside the callback.

        Raises:
            IllegalState: this is a call from inside.
        """
        if self._entered:
            raise IllegalState("the acknowledgement callback may not use the consumer")

    def run(self, *, elsewhere: bool = False) -> None:
        """Report all outcomes, if this is the right thread for it.

        Raises:
            IllegalState: as :meth:`check_outside`.
        """
        self.check_outside()
        if elsewhere is not self.elsewhere:
            return
        while self._outcomes and self._callback is not None:
            outcome = self._outcomes.popleft()
            offsets = [one.offsets for one in outcome.ranges]
            if outcome.error is not None or not outcome.gone_back:
                self._tell(outcome.partition, offsets, outcome.error)
                continue
            left = map(OffsetRange._make, minus(offsets, outcome.gone_back))
            self._tell(outcome.partition, list(left), None)
            self._tell(outcome.partition, outcome.gone_back, _GONE_BACK)

    def _tell(
        self, partition: TopicIdPartition, offsets: Sequence[OffsetRange], error: KafkaError | None
    ) -> None:
        if self._callback is None:
            return
        self._entered = True
        try:
            self._callback({self._name_of(partition): offsets}, error)
        except Exception:
            log.exception("the acknowledgement callback failed")
        finally:
            self._entered = False
