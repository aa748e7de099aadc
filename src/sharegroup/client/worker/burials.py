"""The records that a worker gives up: who writes their dead letters, and what is said of those that
end without one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sharegroup.client.worker.dead_letters import DeadLetters
from sharegroup.client.worker.failures import FailureLog
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.retry import Deliveries
from sharegroup.client.worker.work import Work
from sharegroup.model.errors import SharegroupError

log = logging.getLogger("sharegroup.worker")


class Burials:
    """See the module.

    Args:
        letters: produces dead letters; None: there are none, or the broker writes them.
        deliveries: the deliveries that the group allows.
    """

    def __init__(
        self,
        letters: DeadLetters | None,
        deliveries: Deliveries,
        metrics: WorkerMetrics,
        failures: FailureLog,
    ) -> None:
        self._letters = letters
        self._deliveries = deliveries
        self._metrics = metrics
        self._failures = failures
        self._letters_work = True

    @property
    def own_topic(self) -> str | None:
        """The topic of the worker's own dead letters."""
        return None if self._letters is None else self._letters.topic

    def is_last(self, work: Work) -> bool:
        """Whether this delivery is the one reserved for the dead letter. One delivery is reserved,
        so that a record is not lost when its process dies.
        """
        limit = self._deliveries.limit
        return self._letters is not None and work.record.delivery_count >= limit > 1

    def has_begun(self, work: Work) -> bool:
        """Whether the record is given up, if its task runs: the task calls no handler any more."""
        return work.giving_up or self.is_last(work)

    async def are_ours(self) -> bool:
        """Whether the worker writes the dead letters itself."""
        return self._letters is not None and not await self._letters.are_the_brokers()

    async def bury(self, work: Work, error: Exception) -> bool:
        """Write the record's dead letter. Returns whether it is durable; if not, the record must
        not be rejected."""
        assert self._letters is not None
        work.burying = True
        try:
            await self._letters.send(work.record, error)
        except SharegroupError as refusal:
            self._not_buried(work, refusal, self._letters.topic)
            return False
        finally:
            work.burying = False
        self._letters_work = True
        self._metrics.dead_lettered += 1
        return True

    def _not_buried(self, work: Work, refusal: SharegroupError, topic: str) -> None:
        self._metrics.dead_letters_failed += 1
        if self._letters_work:
            self._letters_work = False
            self._failures.note(
                f"dead letters cannot be produced to {topic}, so their records are released and "
                f"not rejected; the first is {work.name}: {refusal}"
            )

    def archives(self, work: Work) -> bool:
        """Whether the broker archives the record when it is released."""
        return work.record.delivery_count >= self._deliveries.limit

    def say_archived(self, works: Sequence[Work]) -> None:
        """These records are released, and end with that. Each is named, however many they are."""
        if not works:
            return
        names = ", ".join(sorted(work.name for work in works))
        if (topic := self._deliveries.letters_topic) is not None:
            end = f"no delivery left: the broker sends them to {topic}"
        else:
            end = "no confirmed dead letter and no delivery left: the broker archives them"
        log.warning("these records have %s: %s", end, names)
