"""The group's lag, for a query's progress, and the records that no longer need an acknowledgement.
The broker is asked for both in the background.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from sharegroup.client.admin.descriptions import ShareGroupOffset
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.source.group_view import GroupQuestions
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.subscription import StreamTopics
from sharegroup.spark.source.throttled_task import ThrottledTask

log = logging.getLogger("sharegroup.spark")

REFRESH_SECONDS: Final = 1.0
PARTITIONS_TOLD: Final = 64
"""Lag is reported per partition up to this many partitions; a query's progress must stay small."""


class Lag:
    """Records that the group has not finished, as of about the last second.

    Attributes:
        total: None: not known yet.
        by_partition: ``topic-partition`` → records; empty when there are very many.
    """

    def __init__(self, group: GroupQuestions, subscription: StreamTopics, ledger: Ledger) -> None:
        self.total: int | None = None
        self.by_partition: dict[str, int] = {}
        self._group = group
        self._subscription = subscription
        self._ledger = ledger
        self._refresh = ThrottledTask(self._ask, REFRESH_SECONDS, "share-lag")

    def refresh(self) -> None:
        """Ask for the lag in the background, if the last answer is older than a second."""
        self._refresh.ask()

    async def now(self) -> None:
        """Ask for the lag, and wait for the answer. If no answer comes, the last one stays."""
        try:
            await self._ask()
        except KafkaError as error:
            log.info("the lag is not known: %s", error)

    def stop(self) -> None:
        """Ask no more."""
        self._refresh.stop()

    async def _ask(self) -> None:
        positions = await self._group.positions(self._subscription.names)
        lags = {where: state.lag for where, state in positions.items() if state.lag is not None}
        if lags:
            self.total = sum(lags.values())
        told = lags if len(lags) <= PARTITIONS_TOLD else {}
        self.by_partition = {str(partition): lag for partition, lag in sorted(told.items())}
        self._forget_passed(positions)

    def _forget_passed(self, positions: Mapping[TopicPartition, ShareGroupOffset]) -> None:
        """Records before the group's start offset are final: forget their acknowledgements."""
        for partition in self._ledger.done():
            name = self._subscription.topics.get(partition.topic_id, "")
            known = positions.get(TopicPartition(name, partition.partition))
            if known is not None and known.start_offset is not None:
                self._ledger.passed(partition, known.start_offset)
