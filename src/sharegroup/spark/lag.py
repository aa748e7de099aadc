"""How far the group is behind, for a query's progress; asked for in the background."""

from __future__ import annotations

from typing import Final

from sharegroup.spark.group import GroupView
from sharegroup.spark.occasional import Occasional
from sharegroup.spark.subscription import Subscription

REFRESH_SECONDS: Final = 1.0
PARTITIONS_TOLD: Final = 64
"""The lag of each partition is told up to this many; a query's progress must stay small."""


class Lag:
    """Records that the group has not done yet, as of the last second or so.

    Attributes:
        total: None: not known yet.
        by_partition: ``topic-partition`` → records; empty when there are very many.
    """

    def __init__(self, group: GroupView, subscription: Subscription) -> None:
        self.total: int | None = None
        self.by_partition: dict[str, int] = {}
        self._group = group
        self._subscription = subscription
        self._refresh = Occasional(self._ask, REFRESH_SECONDS, "share-lag")

    def refresh(self) -> None:
        """Ask for it in the background, if the last answer is older than a second."""
        self._refresh.ask()

    def stop(self) -> None:
        """Ask no more."""
        self._refresh.stop()

    async def _ask(self) -> None:
        known = await self._group.lags(self._subscription.names)
        if known:
            self.total = sum(known.values())
        told = known if len(known) <= PARTITIONS_TOLD else {}
        self.by_partition = {str(partition): lag for partition, lag in sorted(told.items())}
