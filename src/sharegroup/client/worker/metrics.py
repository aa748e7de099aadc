"""The counts of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.client.sensors import Sensor
from sharegroup.client.share.metrics import Metrics

GROUP: Final = "share-worker-metrics"


class WorkerMetrics:
    """Totals since the worker began, and the handler's time over the last 30 to 60 seconds.

    Args:
        now: the time, in seconds.

    Attributes:
        handled: records whose handler returned, and that were accepted.
        failed: deliveries whose handler raised, or took too long.
        retried: failed records that were released, to come again after their pause.
        dead_lettered: records that are in the dead-letter topic, and were rejected.
        dead_letters_failed: dead letters that could not be produced.
        rejected: records that were given up without a dead-letter topic.
        released: records that were given back untried or unfinished when the worker ended, without
            those that the broker archives with that.
        lost: records whose lock was lost before their answer reached the broker.
        damaged: record batches that could not be read.
        kept_answered: kept results that have answered for a record that came back.
        kept_dropped: kept results whose record did not come back in time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self.handled = 0
        self.failed = 0
        self.retried = 0
        self.dead_lettered = 0
        self.dead_letters_failed = 0
        self.rejected = 0
        self.released = 0
        self.lost = 0
        self.damaged = 0
        self.kept_answered = 0
        self.kept_dropped = 0
        self._times = Sensor()
        self._longest_s = 0.0

    def handler_took(self, seconds: float) -> None:
        """A handler ended after this time, whether it returned or raised."""
        self._times.record(seconds * 1000, self._now())
        self._longest_s = max(self._longest_s, seconds)

    def read(
        self,
        *,
        slots: int,
        running: int,
        waiting: int,
        resting: int,
        resting_at_broker: int,
        kept: int,
    ) -> Metrics:
        """All values by (group, name)."""
        now = self._now()
        values = {
            "handled-total": self.handled,
            "failed-total": self.failed,
            "retried-total": self.retried,
            "dead-lettered-total": self.dead_lettered,
            "dead-letters-failed-total": self.dead_letters_failed,
            "rejected-total": self.rejected,
            "released-total": self.released,
            "lost-locks-total": self.lost,
            "damaged-batches-total": self.damaged,
            "kept-answered-total": self.kept_answered,
            "kept-dropped-total": self.kept_dropped,
            "in-flight": running,
            "idle-slots": max(0, slots - running),
            "waiting": waiting,
            "resting": resting,
            "resting-at-broker": resting_at_broker,
            "kept": kept,
            "handler-time-avg": self._times.average(now),
            "handler-time-max": self._times.maximum(now),
        }
        return {(GROUP, name): float(value) for name, value in values.items()}

    def summary(self) -> str:
        """One line for the log, at the worker's end."""
        seconds = self._now() - self._began
        average = self._times.total / self._times.count if self._times.count else 0.0
        return (
            f"{seconds:.1f} s: handled {self.handled}, failed {self.failed}, "
            f"retried {self.retried}, dead-lettered {self.dead_lettered}, "
            f"rejected {self.rejected}, released {self.released}, locks lost {self.lost}, "
            f"kept results used {self.kept_answered}, dropped {self.kept_dropped}; "
            f"a handler took {average:.0f} ms on average, {self._longest_s * 1000:.0f} ms at most"
        )
