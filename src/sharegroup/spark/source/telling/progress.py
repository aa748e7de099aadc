"""Numbers of a running stream: for ``lastProgress``, and for each offset in the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from sharegroup.spark.source.holding.ledger import LedgerStatistics
from sharegroup.spark.source.holding.lock_renewal import LockRenewal
from sharegroup.spark.source.telling.lag import Lag

COUNTED: Final = ("redelivered", "renewed", "accepted", "released", "rejected")
"""The counters, which start with the stream in this process."""


class QueryProgress:
    """See the module.

    Args:
        group: the share group.
        ledger: the source of the statistics.
    """

    def __init__(
        self, group: str, ledger: Callable[[], LedgerStatistics], locks: LockRenewal, lag: Lag
    ) -> None:
        self._group = group
        self._ledger = ledger
        self._locks = locks
        self._lag = lag
        self._told = dict.fromkeys(COUNTED, 0)

    def report(self, partitions: int) -> dict[str, Any]:
        """Numbers for ``sources[].latestOffset`` of the query's progress; Spark asks for them after
        every batch.

        Args:
            partitions: how many partitions the group has given to this member.
        """
        now = self._ledger()
        return {
            "group": self._group,
            "lag": self._lag.total,
            "lagByPartition": self._lag.by_partition,
            "inFlight": now.in_batch,
            "prefetched": now.ready,
            "unconfirmed": now.unconfirmed,
            **self._counted(),
            "held": now.held,
            "undecided": now.undecided,
            "unmatched": now.unmatched,
            "partitions": partitions,
        }

    def numbers(self, took_s: float, settle_s: float) -> dict[str, int]:
        """Numbers for one offset: the counts since the previous offset, and the durations."""
        counted = self._counted()
        since = {name: counted[name] - self._told[name] for name in COUNTED}
        self._told = counted
        lag = {} if self._lag.total is None else {"lag": self._lag.total}
        return {
            "at": time.time_ns() // 1_000_000,
            "took": int(took_s * 1000),
            "settle": int(settle_s * 1000),
            **lag,
            **since,
        }

    def _counted(self) -> dict[str, int]:
        now = self._ledger()
        return {
            "redelivered": now.redelivered,
            "renewed": self._locks.renewed,
            "accepted": now.accepted,
            "released": now.released,
            "rejected": now.rejected,
        }
