"""What a running query tells its user: numbers for its progress, and advice in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from sharegroup.model.errors import KafkaError
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.group_view import LOCKS_CONFIG, GroupQuestions
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.membership import DriverMembership
from sharegroup.spark.source.offsets import BatchOffset
from sharegroup.spark.source.subscription import StreamTopics
from sharegroup.spark.source.telling.advice import Advice
from sharegroup.spark.source.telling.lag import Lag
from sharegroup.spark.source.telling.progress import QueryProgress
from sharegroup.spark.source.throttled_task import ThrottledTask

log = logging.getLogger("sharegroup.spark")


class Reporting:
    """See the module.

    Attributes:
        advice: the advice in the log, each sentence once.
        lag: the group's lag, as of about the last second.
        progress: the numbers of the stream; None until the group is joined.
        locks_per_partition: the group's lock limit; None: not known.
    """

    def __init__(
        self,
        options: ShareOptions,
        group: GroupQuestions,
        subscription: StreamTopics,
        ledger: Ledger,
    ) -> None:
        self.advice = Advice(options)
        self.lag = Lag(group, subscription, ledger)
        self.progress: QueryProgress | None = None
        self.locks_per_partition: int | None = None
        self._locks_config = LOCKS_CONFIG
        self._group_id = options.group_id
        self._group = group
        self._ledger = ledger
        self._given_at = 0.0
        self._configs = ThrottledTask(self.look_at_configs, float("inf"), "share-configs")

    def begin(self, membership: DriverMembership) -> None:
        """The group is joined."""
        self.progress = QueryProgress(
            self._group_id, self._ledger.statistics, membership.locks, self.lag
        )

    def stop(self) -> None:
        """Ask the cluster no more."""
        self.lag.stop()
        self._configs.stop()

    def asked(self, membership: DriverMembership) -> None:
        """Spark asks for the next batch, so it is done with the previous one."""
        if self._given_at and not membership.locks.possible:
            took_s = asyncio.get_running_loop().time() - self._given_at
            self.advice.batch_time(took_s, membership.member.lock_timeout_ms)

    def collected(self) -> None:
        """Spark is about to get a batch."""
        self._given_at = asyncio.get_running_loop().time()

    def given(self, start: BatchOffset, batch: BatchOffset, limit: int | None) -> None:
        """Spark got the batch after ``start``, for which it had asked for ``limit`` records."""
        if start.sequence:
            self.advice.superseded(start.sequence)
        self._configs.ask()
        if limit is None or batch.records < limit:
            self.advice.locks(batch, limit, self.locks_per_partition, self._locks_config)

    def statistics(self, partitions: int) -> dict[str, Any] | None:
        """Numbers for the query's progress (``sources[].latestOffset``); None: not joined yet."""
        return None if self.progress is None else self.progress.report(partitions)

    async def look_at_configs(self) -> None:
        """Ask how many locks the group may hold, and whether it has order per key."""
        try:
            configs = await self._group.delivery_configs()
        except KafkaError as error:
            log.info("the configs of the group are not known: %s", error)
            return
        self.locks_per_partition = configs.locks_per_partition
        self._locks_config = configs.locks_config
        self.advice.order(ordered_by_key=configs.ordered_by_key)
