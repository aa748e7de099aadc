"""Commits offsets: when the application asks for it, and by itself for records that are done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from sharegroup.client.admin.offset_requests import (
    UNKNOWN_TOPIC,
    TopicIds,
    commit_offsets,
    commit_ranges,
)
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.positions import CommittedPositions, Position
from sharegroup.client.core.rebalance import MemberIdentity
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.group.commit_outcome import CommitOutcome
from sharegroup.client.group.metrics import GroupConsumerMetrics
from sharegroup.client.group.topic_identities import TopicIdentities
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.errors import KafkaError, StaleMemberEpoch
from sharegroup.model.ids import TopicPartition

RANGES_PER_REQUEST: Final = 10_000

log = logging.getLogger("sharegroup.client")

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def _worth_another_try(error: KafkaError) -> bool:
    """Whether a retry may help. A stale epoch is over when the next heartbeat has been answered."""
    return error.retriable or isinstance(error, StaleMemberEpoch)


def as_offsets(
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as offsets to commit."""
    return {where: OffsetAndMetadata(*position) for where, position in positions.items()}


def log_left_out(topics: Collection[str]) -> None:
    """Say that records of these topics, if there are any, were left out of a commit."""
    if topics:
        names = ", ".join(sorted(topics))
        log.warning(
            "records left out of a commit, because their topic was deleted and made anew: %s", names
        )


class ReadingProgress(Protocol):
    """How far the application is with its records."""

    def done(self) -> Mapping[TopicPartition, Position]:
        """The positions after the records that it is done with."""
        ...

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These positions are committed."""
        ...


class OffsetCommitter:
    """See the module. One commit is sent at a time, so that an older one never comes last.

    Args:
        identity: who commits.
        progress: how far the application is.
        covered: the offsets to commit by ranges, in shared partitions.
        ranges_max: if there are more ranges, they are committed without waiting for the interval.
        identities: which topics the records are from.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: Callable[[], MemberIdentity],
        progress: ReadingProgress,
        metrics: GroupConsumerMetrics,
        covered: Covered,
        ranges_max: int,
        identities: TopicIdentities,
    ) -> None:
        self.committed = CommittedPositions()
        self.covered = covered
        self._ranges_max = ranges_max
        self._many = asyncio.Event()
        self._cluster = cluster
        self._progress = progress
        self._metrics = metrics
        self._identity = identity
        self._identities = identities
        self._lock = asyncio.Lock()
        self._auto: asyncio.Task[None] | None = None
        self._given_up: list[set[TopicPartition]] = []
        """For each commit under way, the partitions that were given up since it began."""

    def follow(self, progress: ReadingProgress) -> None:
        """From now on, ``progress`` says which records are done."""
        self._progress = progress

    async def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit these offsets; retries transient errors.

        Raises:
            RebalanceInProgress: a partition was given up meanwhile, or its topic was deleted and
                made anew; its offset is not committed.
            UnknownTopicOrPartition: a topic was deleted. All other offsets are committed.
            KafkaError: the commit was refused. No offset, or only some, are committed.
        """
        with self._watching() as gone:
            async with self._lock:
                await self._commit(offsets, gone, timeout_ms)

    async def commit_single(
        self,
        offsets: Mapping[TopicPartition, Sequence[int]],
        topic_ids: TopicIds,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit single records of shared partitions, and the offsets there that no record has.

        Args:
            topic_ids: the topics that the records are from. Of topics that were deleted and made
                anew since, nothing is committed: nobody reads their records again.

        Raises:
            UnknownTopicOrPartition: a topic was deleted. All other records are committed.
            KafkaError: the commit was refused. Some of the records may be committed.
        """
        async with self._lock:
            ranges = {w: self.covered.with_holes(w, own) for w, own in offsets.items()}
            begins = self._begins({w: min(own) for w, own in offsets.items()})
            outcome = CommitOutcome(self._cluster, self._identities, topic_ids, set())

            async def attempt() -> None:
                outcome.gone |= self._identities.gone(ranges, topic_ids)
                unknown = await self._commit_ranges(ranges, begins, topic_ids, outcome)
                await outcome.look_for_topics(unknown)

            await retrying(
                self._cluster,
                attempt,
                self._cluster.request_timeout_ms if timeout_ms is None else timeout_ms,
                _worth_another_try,
            )
            outcome.gone |= self._identities.gone(ranges, topic_ids)
            log_left_out({where.topic for where in outcome.gone})
            outcome.check(ranges.keys() - outcome.gone)

    async def commit_done(self, timeout_ms: int | None = None) -> None:
        """Commit the records that are done. A failure is logged: the records come again to the
        member that gets the partitions next.
        """
        async with self._lock:  # ask what is done only when no other commit is under way
            try:
                with self._watching() as gone:
                    await self._commit(as_offsets(self._missing()), gone, timeout_ms)
            except KafkaError as error:
                log.warning("offsets could not be committed: %s", error)

    def _missing(self) -> dict[TopicPartition, Position]:
        """The positions to commit. If a partition is read in turns, more records may be done though
        its position is the same."""
        done, covered = self._progress.done(), self.covered
        missing = self.committed.missing(done)
        return missing | {
            where: at
            for where, at in done.items()
            if where in covered and covered.before(where, at.offset)
        }

    def give_up(self, wheres: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more. Commits under way leave them out of what they
        send from now on: other members may have committed there, and a retry, under the epoch that
        this member has by then, would move the group back."""
        for gone in self._given_up:
            gone.update(wheres)

    @contextmanager
    def _watching(self) -> Iterator[set[TopicPartition]]:
        """The partitions that are given up during this block, as they come."""
        gone: set[TopicPartition] = set()
        self._given_up.append(gone)
        try:
            yield gone
        finally:
            self._given_up = [one for one in self._given_up if one is not gone]

    async def _commit(
        self, offsets: Offsets, gone: set[TopicPartition], timeout_ms: int | None
    ) -> None:
        if not offsets:
            return
        if timeout_ms is None:
            timeout_ms = self._cluster.request_timeout_ms

        covered = self.covered
        ranges = {w: covered.before(w, offsets[w].offset) for w in offsets if w in covered}
        begins = self._begins({w: offsets[w].offset for w in ranges})
        topic_ids = {w.topic: own for w in offsets if (own := self._identities.read(w)) is not None}
        outcome = CommitOutcome(self._cluster, self._identities, topic_ids, gone)
        plain = {where: one for where, one in offsets.items() if where not in ranges}

        async def attempt() -> None:
            unknown = await self._commit_plain(plain, topic_ids, outcome)
            unknown |= await self._commit_ranges(ranges, begins, topic_ids, outcome)
            await outcome.look_for_topics(unknown)

        began = self._metrics.time()
        try:
            await retrying(self._cluster, attempt, timeout_ms, _worth_another_try)
            outcome.check(offsets)
        except KafkaError:
            self._metrics.commit_failed()
            raise
        finally:  # some are committed, also where others are refused
            self._note({w: one for w, one in offsets.items() if w in outcome.taken - gone})
        self._metrics.committed(began)

    async def _commit_plain(
        self, offsets: Offsets, topic_ids: TopicIds, outcome: CommitOutcome
    ) -> dict[TopicPartition, KafkaError]:
        """Commit what is left of these offsets. Returns the errors of topics that are not known."""
        left = {where: offsets[where] for where in outcome.left(offsets)}
        if not left:
            return {}
        unknown = await commit_offsets(self._cluster, self._identity(), left, topic_ids)
        outcome.taken |= left.keys() - unknown.keys()
        return unknown

    def _note(self, offsets: Offsets) -> None:
        positions = {w: Position(one.offset, one.leader_epoch) for w, one in offsets.items()}
        self.committed.note(positions)
        self._progress.committed(positions)

    def _begins(self, lowest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the group begins, of those partitions where it may have committed nothing, because
        the application has sought an offset: there, or at the ``lowest`` offset of the commit."""
        found = {where: self.covered.begin(where) for where in lowest}
        return {where: min(at, lowest[where]) for where, at in found.items() if at is not None}

    async def _commit_ranges(
        self,
        ranges: Mapping[TopicPartition, Intervals],
        begins: Mapping[TopicPartition, int],
        topic_ids: TopicIds,
        outcome: CommitOutcome,
    ) -> dict[TopicPartition, KafkaError]:
        """Commit what is left of these ranges of shared partitions, in requests of as many ranges
        as the group takes. Returns the errors of topics that are not known."""
        unknown: dict[TopicPartition, KafkaError] = {}
        for where in outcome.left(ranges):
            own = ranges[where]
            begin = {where: begins[where]} if where in begins else {}
            try:
                # Without ranges, one request that only says where the group begins.
                for at in range(0, len(own) or len(begin), RANGES_PER_REQUEST):
                    some = own[at : at + RANGES_PER_REQUEST]
                    await commit_ranges(
                        self._cluster, self._identity(), {where: some}, begin, topic_ids
                    )
                    if not self._identities.gone([where], topic_ids):
                        self.covered.committed(where, some)
                outcome.taken.add(where)
            except UNKNOWN_TOPIC as error:
                unknown[where] = error
        return unknown

    def look(self) -> None:
        """Commit soon, if there are too many ranges."""
        if len(self.covered) > self._ranges_max:
            self._many.set()

    def start(self, interval_ms: int) -> None:
        """Commit the records that are done every ``interval_ms`` from now on."""
        if self._auto is None:
            self._auto = asyncio.create_task(self._run(interval_ms / 1000), name="auto-commit")

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop. Returns the cancelled tasks, which are about to end."""
        task, self._auto = self._auto, None
        if task is None:
            return []
        task.cancel()
        return [task]

    async def _run(self, interval_s: float) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._many.wait()
            self._many.clear()
            await self.commit_done()
