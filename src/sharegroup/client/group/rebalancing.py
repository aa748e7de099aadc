"""Tells the application which partitions its member gets and gives up, and changes the positions
with them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

from sharegroup.client.core.positions import Positions
from sharegroup.client.core.rebalance import AssignmentChange
from sharegroup.client.group.committer import OffsetCommitter
from sharegroup.client.group.member import GroupMember
from sharegroup.client.group.metrics import GroupConsumerMetrics
from sharegroup.client.group.reader import Reader
from sharegroup.model.ids import TopicPartition

RebalanceCallback = Callable[[list[TopicPartition]], object]
"""Called with the partitions, sorted. A plain or a coroutine function."""


async def call_here(callback: RebalanceCallback, wheres: list[TopicPartition]) -> None:
    """Call the application's function on the event loop."""
    answer = callback(wheres)
    if inspect.isawaitable(answer):
        await answer


class Handling(Protocol):
    """A pool that handles records while the consumer polls."""

    async def drain(self, wheres: Iterable[TopicPartition]) -> None:
        """Let the running handlers of these partitions end, and commit their records."""
        ...

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        """Drop all records of these partitions: other members may have them."""
        ...


class Rebalancing:
    """See the module.

    Args:
        commits: records that are done are committed before partitions are given up.
        shares: partitions may be shared with other members (KIP-X).
        cooperative: shared partitions are read in turns, not by key.

    Attributes:
        on_assigned, on_revoked, on_lost: the application's functions; None: it need not know.
            Without ``on_lost``, ``on_revoked`` is called.
        call: calls one of these functions.
    """

    def __init__(
        self,
        member: GroupMember,
        positions: Positions,
        committer: OffsetCommitter,
        reader: Reader,
        *,
        commits: bool,
        shares: bool,
        cooperative: bool,
        metrics: GroupConsumerMetrics,
    ) -> None:
        self.on_assigned: RebalanceCallback | None = None
        self.on_revoked: RebalanceCallback | None = None
        self.on_lost: RebalanceCallback | None = None
        self.call: Callable[[RebalanceCallback, list[TopicPartition]], Awaitable[None]] = call_here
        self._member = member
        self._positions = positions
        self._committer = committer
        self._reader = reader
        self._commits = commits
        self._shares = shares
        self.cooperative = cooperative
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._handling: Handling | None = None

    def follow(self, handling: Handling | None) -> None:
        """From now on, tell ``handling`` of partitions that are given up, before the application is
        told; None: tell the application only."""
        self._handling = handling

    async def apply(self) -> None:
        """Tell the application of all changes. If the caller is cancelled, the telling goes on: the
        next call waits for its end.

        Raises:
            Exception: the first one that a callback raised. The change holds nevertheless.
        """
        if self._task is None and self._member.machine.change is None:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._apply_all(), name="rebalance")
        await asyncio.shield(self._task)
        self._task = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def give_up(self, *, lost: bool = False) -> None:
        """Tell the application that all its partitions are given up, because it leaves."""
        wheres = self._positions.assigned
        await self._apply(
            AssignmentChange(lost=wheres) if lost else AssignmentChange(revoked=wheres)
        )
        error, self._error = self._error, None
        if error is not None:
            raise error

    def drop(self, wheres: Iterable[TopicPartition]) -> None:
        """Forget everything of these partitions, which are not read any more."""
        gone = set(wheres)
        self._reader.forget(gone)
        self._positions.remove(gone)
        self._committer.committed.remove(gone)
        self._committer.covered.remove(gone)

    def begin_anew(self, topic_ids: Mapping[TopicPartition, UUID]) -> None:
        """The topics of these partitions were deleted and made anew, with these ids: begin with
        them as if they had just been assigned. Nobody is told: the same partitions are ours.
        """
        if self._handling is not None:
            self._handling.forget(topic_ids)
        self._reader.forget(topic_ids)
        self._committer.committed.remove(topic_ids)
        self._committer.give_up(topic_ids)
        for where, topic_id in topic_ids.items():
            self._positions.begin_anew(where, topic_id)

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the cancelled tasks, which are about to end."""
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    async def _apply_all(self) -> None:
        while (change := self._member.machine.tell()) is not None:
            await self._apply(change)
            self._metrics.rebalanced()
            self._member.told()

    async def _apply(self, change: AssignmentChange) -> None:
        handling = self._handling
        if change.lost and handling is not None:
            handling.forget(change.lost)  # at once: other members may have these keys already
        if change.revoked:
            if handling is not None:
                await handling.drain(change.revoked)
            if self._commits:
                await self._committer.commit_done()
            # Before the positions are dropped: the callback may still commit.
            await self._tell(self.on_revoked, change.revoked)
        if change.lost:
            await self._tell(self.on_lost or self.on_revoked, change.lost)
        gone = change.revoked | change.lost
        if handling is not None:
            handling.forget(gone)
        self.drop(gone)
        self._committer.give_up(gone)
        if change.assigned:
            self._begin(change)  # first, so that the callback can seek
            await self._tell(self.on_assigned, change.assigned)

    def _begin(self, change: AssignmentChange) -> None:
        """Begin to read the partitions that the member gets."""
        self._positions.add(sorted(change.assigned), from_group=True)
        if self._shares:
            self._positions.share(change.assigned)
            self._committer.covered.track(change.assigned)
        if self.cooperative:
            self._positions.read_in_turns(change.assigned)
        else:
            for where, own in change.parts.items():
                self._positions.read_ranges(where, own)

    async def _tell(
        self, callback: RebalanceCallback | None, wheres: Iterable[TopicPartition]
    ) -> None:
        if callback is None:
            return
        try:
            await self.call(callback, sorted(wheres))
        except Exception as error:  # noqa: BLE001  # the application's code may raise anything
            self._error = self._error or error
