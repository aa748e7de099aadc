"""Commits offsets: when the application says so, and by itself what is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sharegroup.client.core.positions import Committed, Position
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.group.metrics import ConsumerMetrics
from sharegroup.client.group.offset_requests import OffsetAndMetadata, commit_offsets
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model.errors import KafkaError, StaleMemberEpoch
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def _worth_another_try(error: KafkaError) -> bool:
    """A stale epoch is over when the next heartbeat has been answered."""
    return error.retriable or isinstance(error, StaleMemberEpoch)


def as_offsets(
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as offsets to commit."""
    return {where: OffsetAndMetadata(*position) for where, position in positions.items()}


class Progress(Protocol):
    """How far the application is with its records."""

    def done(self) -> Mapping[TopicPartition, Position]:
        """The positions behind all that it is done with."""
        ...

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These positions are committed."""
        ...


class Committer:
    """See the module. One commit is sent at a time, so that an older one never comes last.

    Args:
        identity: who commits.
        progress: how far the application is.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: Callable[[], MemberIdentity],
        progress: Progress,
        metrics: ConsumerMetrics,
    ) -> None:
        self.committed = Committed()
        self._cluster = cluster
        self._progress = progress
        self._metrics = metrics
        self._identity = identity
        self._lock = asyncio.Lock()
        self._auto: asyncio.Task[None] | None = None

    async def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit; retries transient errors.

        Raises:
            KafkaError: it was refused. Nothing, or a part of it, is committed.
        """
        async with self._lock:
            await self._commit(offsets, timeout_ms)

    async def commit_done(self, timeout_ms: int | None = None) -> None:
        """Commit what is done. A failure is logged: the records come again to whoever gets the
        partitions next.
        """
        async with self._lock:  # what is done is asked when no other commit is under way
            try:
                done = self.committed.missing(self._progress.done())
                await self._commit(as_offsets(done), timeout_ms)
            except KafkaError as error:
                log.warning("offsets could not be committed: %s", error)

    async def _commit(self, offsets: Offsets, timeout_ms: int | None) -> None:
        if not offsets:
            return
        if timeout_ms is None:
            timeout_ms = self._cluster.request_timeout_ms

        async def attempt() -> None:
            await commit_offsets(self._cluster, self._identity(), offsets)

        began = self._metrics.time()
        try:
            await retrying(self._cluster, attempt, timeout_ms, _worth_another_try)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        self._metrics.committed(began)
        positions = {w: Position(one.offset, one.leader_epoch) for w, one in offsets.items()}
        self.committed.note(positions)
        self._progress.committed(positions)

    def start(self, interval_ms: int) -> None:
        """Commit what is done every ``interval_ms`` from now on."""
        if self._auto is None:
            self._auto = asyncio.create_task(self._run(interval_ms / 1000), name="auto-commit")

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the tasks that end now."""
        task, self._auto = self._auto, None
        if task is None:
            return []
        task.cancel()
        return [task]

    async def _run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await self.commit_done()
