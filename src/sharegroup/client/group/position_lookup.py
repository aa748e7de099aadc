"""Looks positions up: the group's committed offsets, where a log begins and ends, and whether a
position is still in the log after its leader has changed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from sharegroup.client.admin.offset_requests import commit_ranges, committed_offsets, epoch_ends
from sharegroup.client.admin.topic_requests import leaders_found, offsets_at
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.positions import EARLIEST, LATEST, Position, Positions, PositionStep
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.errors import NoOffsetForPartition
from sharegroup.client.group.fetcher import LogFetcher
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

_MEMBERSHIP_CHANGES = (errors.FencedMemberEpoch, errors.StaleMemberEpoch, errors.UnknownMemberId)
"""Errors that heartbeats get too, and deal with: the look-up only tries again."""


class PositionLookup:
    """See the module.

    Args:
        identity: the member that asks the group's coordinator; None: there is no group.
        committed: take the last stable offset for a log's end (read_committed).
        on_news: called when positions may be known, and when a look-up has ended.

    Attributes:
        errors: errors that the next poll raises.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        fetcher: LogFetcher,
        covered: Covered,
        *,
        identity: Callable[[], MemberIdentity] | None,
        committed: bool,
        on_news: Callable[[], None],
    ) -> None:
        self.errors: deque[errors.SharegroupError] = deque()
        self._cluster = cluster
        self._positions = positions
        self._fetcher = fetcher
        self._covered = covered
        self._identity = identity
        self._committed = committed
        self._on_news = on_news
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look up the positions that wait for it, in the background."""
        if self._task is None and self._waits():
            self._task = asyncio.create_task(self._run(), name="consumer-positions")

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the cancelled tasks, which are about to end."""
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    def _waits(self) -> bool:
        steps = (PositionStep.COMMITTED, PositionStep.RESET, PositionStep.CHECK)
        return not self.errors and any(self._positions.waiting(step) for step in steps)

    async def _run(self) -> None:
        try:
            while self._waits():
                await retrying(self._cluster, self._round, math.inf, _worth_another_try, _log_retry)
        except errors.KafkaError as error:
            self.errors.append(error)
        finally:
            self._task = None
            self._on_news()

    async def _round(self) -> None:
        """Do all that can be done now. A partition that fails holds up no others.

        Raises:
            KafkaError: of a partition that failed.
        """
        if self.errors:
            return  # the next poll raises them
        failed: list[errors.KafkaError] = []
        for step, look_up in (
            (PositionStep.COMMITTED, self._look_up_committed),
            (PositionStep.RESET, self._look_up_offsets),
            (PositionStep.CHECK, self._check),
        ):
            if wanted := self._positions.waiting(step):
                try:
                    await look_up(wanted)
                except errors.KafkaError as error:
                    failed.append(error)
        if failed:
            self._on_news()  # others may have a position now, and are fetched during the pause
            raise _gravest(failed)

    async def _look_up_committed(self, wanted: dict[TopicPartition, int]) -> None:
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._identity is not None:
            found = await committed_offsets(
                self._cluster,
                self._identity(),
                wanted,
                with_ranges=any(map(self._positions.is_shared, wanted)),
            )
        for where, committed in found.items():
            position = Position(committed.offset, committed.leader_epoch)
            self._positions.found(where, wanted[where], position, committed.ranges)
        stuck = self._positions.uncommitted(wanted.keys() - found.keys())
        if stuck:
            self.errors.append(NoOffsetForPartition(stuck))

    async def _look_up_offsets(self, wanted: dict[TopicPartition, int]) -> None:
        """Look up where logs begin and end, at all their leaders at once.

        Raises:
            KafkaError: a partition has no leader, or its leader refuses it or does not answer; all
                others were looked up.
        """
        mine = [where for where in wanted if where in self._positions]
        by_leader, failed = await leaders_found(self._cluster, mine)
        failures = await asyncio.gather(
            *(self._look_up_at(node, wheres, wanted) for node, wheres in by_leader.items())
        )
        await self._check_failures([*failed.values(), *(one for own in failures for one in own)])

    async def _look_up_at(
        self, node_id: int, wheres: list[TopicPartition], wanted: dict[TopicPartition, int]
    ) -> list[errors.KafkaError]:
        """Ask one leader. Returns the errors."""
        failed: list[errors.KafkaError] = []
        by_time: dict[int, list[TopicPartition]] = {}
        for where in wheres:
            if where in self._positions:
                by_time.setdefault(self._positions.reset_of(where), []).append(where)
        try:
            for timestamp, own in by_time.items():
                found = await self._offsets_at(node_id, own, timestamp, failed)
                behind = [where for where, offset in found.items() if offset < 0]
                if behind:  # no record of these partitions is as new as the timestamp
                    found = {where: offset for where, offset in found.items() if offset >= 0}
                    found |= await self._offsets_at(node_id, behind, LATEST, failed)
                await self._found(found, wanted)
        except errors.KafkaError as error:
            failed.append(error)
        return failed

    async def _offsets_at(
        self,
        node_id: int,
        wheres: list[TopicPartition],
        timestamp: int,
        failed: list[errors.KafkaError],
    ) -> dict[TopicPartition, int]:
        """The offsets of those partitions that the leader answers for; ``failed`` gets the errors
        of the others."""
        found: dict[TopicPartition, int] = {}
        for where, one in (
            await offsets_at(self._cluster, node_id, wheres, timestamp, committed=self._committed)
        ).items():
            if isinstance(one, errors.KafkaError):
                failed.append(one)
            else:
                found[where] = one.offset
        return found

    async def _found(
        self, found: dict[TopicPartition, int], wanted: dict[TopicPartition, int]
    ) -> None:
        begins = {where: offset for where, offset in found.items() if self._begins(where)}
        if begins:
            await self._commit_begins(begins)
        for where, offset in found.items():
            if where in begins:
                self._positions.look_up_committed(where, wanted[where])
            elif self._positions.is_current(where, wanted[where]):
                self._go_on(where, wanted[where], offset)
        if found:
            self._on_news()  # another leader may take its time

    def _go_on(self, where: TopicPartition, version: int, offset: int) -> None:
        lost, done = self._positions.take_lost(where), self._positions.done(where)
        if lost is None or lost > offset:
            done = ()  # the application begins again; or a log that was cut has other records there
        elif lost < offset and self._positions.reset_of(where) == EARLIEST:
            self._covered.read(where, (), [(lost, offset - 1)])  # nobody can read these offsets now
        if not self._positions.turn(where):  # offsets of turns do not ascend, and nobody seeks
            self._covered.go_on(where, offset)
        self._positions.found(where, version, Position(offset), done)

    async def _check_failures(self, failed: list[errors.KafkaError]) -> None:
        if failed:
            await self._cluster.refresh()  # so that a retry knows the current leaders
            raise _gravest(failed)

    async def _commit_begins(self, begins: dict[TopicPartition, int]) -> None:
        assert self._identity is not None, "only a group's partitions are shared"
        ids = {w.topic: own for w in begins if (own := self._positions.topic_id(w))}
        try:
            await commit_ranges(self._cluster, self._identity(), {}, begins, ids)
        except errors.UnknownTopicId:
            await self._cluster.refresh()
            self._on_news()  # the poll begins anew with a topic that was made anew
            raise

    def _begins(self, where: TopicPartition) -> bool:
        return where in self._positions and self._positions.begins(where)

    async def _check(self, wanted: dict[TopicPartition, int]) -> None:
        """Check that positions are still in the log: an unclean change of leader may have cut it
        short (KIP-320).

        Raises:
            KafkaError: a partition has no leader, or its leader refuses it or does not answer; all
                others were checked.
        """
        failed: list[errors.KafkaError] = []
        by_node: dict[int, dict[TopicPartition, tuple[Position, int]]] = {}
        for where, version in wanted.items():
            info, position = self._fetcher.leader_of(where), self._positions.position(where)
            if info is not None and position is not None:
                if position.leader_epoch >= info.leader_epoch:
                    self._positions.checked(where, version, info.leader_epoch)
                else:
                    by_node.setdefault(info.leader, {})[where] = (position, info.leader_epoch)
            else:
                failed.append(errors.LeaderNotAvailable(f"{where} has no leader to ask"))
        for node_id, mine in by_node.items():
            try:
                ends = await epoch_ends(self._cluster, node_id, mine)
            except errors.KafkaError as error:
                failed.append(error)
                continue
            for where, end in ends.items():
                position, leader_epoch = mine[where]
                if isinstance(end, errors.KafkaError):
                    failed.append(end)
                elif 0 <= end.offset < position.offset:
                    log.warning(
                        "%s was cut short by a change of its leader: going on at %d instead of %d",
                        where,
                        end.offset,
                        position.offset,
                    )
                    self._positions.found(where, wanted[where], end)
                else:
                    self._positions.checked(where, wanted[where], leader_epoch)
        await self._check_failures(failed)


def _gravest(failed: list[errors.KafkaError]) -> errors.KafkaError:
    """An error that the application must know, if there is one: a retry would hide it."""
    return next((error for error in failed if not _worth_another_try(error)), failed[0])


def _worth_another_try(error: errors.KafkaError) -> bool:
    return error.retriable or isinstance(error, _MEMBERSHIP_CHANGES)


def _log_retry(error: errors.KafkaError, _failures: int) -> None:
    log.debug("positions are not known yet: %s", error)
