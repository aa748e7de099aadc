"""Individual commits of groups: the requests with ranges of offsets (KIP-X, "Individual Commit").

A transaction cannot hold ranges: it commits one offset per partition. So a transactional commit of
ranges waits until all offsets before the ranges are committed, as in the draft's purgatory, and
then commits the offset after the ranges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from sharegroup.broker.coordination.group_runtimes import GroupRuntimes
from sharegroup.broker.coordination.log import unavailable
from sharegroup.broker.coordination.offset_coordinator import (
    OffsetCoordinator,
    OffsetTransaction,
)
from sharegroup.broker.coordination.offsets_machine import OffsetsMachine
from sharegroup.groups.offsets import NONE, Commit, CommitClient
from sharegroup.groups.range_commits import AnyRecord, RangeCommit, RangesCommitted
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition

logger = logging.getLogger("sharegroup.broker")

PURGATORY_S: Final = 5.0
"""How long a transactional commit waits for the offsets before its ranges. Then it is refused with
UNSTABLE_OFFSET_COMMIT, and the client repeats it."""

GROUPS_SAID_MAX: Final = 1_000
RANGES_PER_TURN: Final = 4_000
"""Ranges that are committed between two turns of the event loop: some 30 ms of work."""


class RangeCommits:
    """The individual commits of all groups of this broker.

    Args:
        allowed: ``accept.individual.commit``, called at each use.
        ranges_max: ``max.individual.commits``, called at each use.
        rebalance: asks a group's members to go on from the committed offsets.
    """

    def __init__(
        self,
        runtimes: GroupRuntimes,
        offsets: OffsetCoordinator,
        allowed: Callable[[], bool],
        ranges_max: Callable[[], int],
        rebalance: Callable[[str], Awaitable[None]],
    ) -> None:
        self._runtimes = runtimes
        self._offsets = offsets
        self._allowed = allowed
        self._ranges_max = ranges_max
        self._rebalance = rebalance
        self.full = 0
        """Commits refused because the group had too many ranges."""
        self._said: set[str] = set()
        self.waiting = 0
        """Transactional commits that wait for the offsets before their ranges."""

    def count(self) -> int:
        """The number of ranges."""
        machines = [runtime.machine(OffsetsMachine) for runtime in self._runtimes.all()]
        return sum(len(machine.individual) for machine in machines)

    def duplicates(self) -> int:
        """Offsets that were committed twice, since the partitions were loaded."""
        machines = [runtime.machine(OffsetsMachine) for runtime in self._runtimes.all()]
        return sum(machine.individual.duplicates for machine in machines)

    async def commit(
        self, committer: CommitClient, commits: Sequence[RangeCommit]
    ) -> list[RangesCommitted]:
        """Commit ranges outside a transaction; they are durable on return.

        Raises:
            IndividualCommitNotAllowed: the broker does not allow it.
            KafkaError: as ``OffsetCoordinator.commit``.
        """
        self._check_allowed()
        with unavailable():
            await self._runtimes.ensure_ranges()
        group_id, before = committer.group_id, self.duplicates()
        answers: dict[TopicPartition, RangesCommitted] = {}
        for piece in _pieces(commits):
            for one, answer in zip(piece, await self._commit(committer, piece), strict=True):
                earlier = answers.get(one.commit.where)
                error = answer.error if earlier is None else earlier.error or answer.error
                answers[one.commit.where] = RangesCommitted(answer.stable, error)
        self._offsets.progressed(len(commits))
        self._say_once(group_id, self.duplicates() - before)
        if any(
            isinstance(each.error, errors.MaxIndividualCommitReached) for each in answers.values()
        ):
            self.full += 1
            await self._rebalance(group_id)
        self._write_due(group_id)
        return [answers[one.commit.where] for one in commits]

    async def _commit(
        self, committer: CommitClient, commits: Sequence[RangeCommit]
    ) -> list[RangesCommitted]:
        def decide(
            machine: OffsetsMachine,
        ) -> tuple[list[RangesCommitted], Sequence[AnyRecord]]:
            self._offsets.check_committer(committer, [one.commit for one in commits])
            return machine.individual.commit(committer.group_id, commits, self._ranges_max())

        return await self._offsets.decide(committer.group_id, decide)

    async def commit_in_transaction(
        self,
        committer: CommitClient,
        transaction: OffsetTransaction,
        commits: Sequence[RangeCommit],
    ) -> None:
        """Commit ranges in a transaction, once all offsets before them are committed.

        Raises:
            IndividualCommitNotAllowed: the broker does not allow it.
            UnstableOffsetCommit: offsets before the ranges are still committed neither for good nor
                in this transaction; the client should retry.
            IndividualCommitTooOld: all of a partition's ranges are committed.
            InvalidRequest: a partition has only empty ranges.
            KafkaError: as ``OffsetCoordinator.commit_in_transaction``.
        """
        self._check_allowed()
        if not all(one.ranges for one in commits):
            raise errors.InvalidRequest("a transaction commits ranges of at least one offset")
        group_id = committer.group_id

        def offsets_after(machine: OffsetsMachine) -> list[Commit]:
            found = []
            for one in commits:
                where, last = (group_id, *one.commit.where), one.ranges[-1][1]
                known = machine.offsets.get(*where)
                earlier = machine.offsets.pending(transaction.producer.producer_id, *where)
                pending = NONE if earlier is None else earlier.offset
                if machine.individual.blocks(group_id, one, pending):
                    raise errors.UnstableOffsetCommit
                if known is not None and last < known.offset:
                    raise errors.IndividualCommitTooOld
                after = one.commit.committed._replace(offset=max(last + 1, pending))
                found.append(one.commit._replace(committed=after))
            return found

        deadline = asyncio.get_running_loop().time() + PURGATORY_S
        while True:
            progress = self._offsets.progress
            try:
                await self._offsets.commit_ranges_in_transaction(
                    committer, transaction, [one.commit for one in commits], offsets_after
                )
            except errors.UnstableOffsetCommit:
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise
                self.waiting += 1
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left_s):
                            await progress.wait()
                finally:
                    self.waiting -= 1
            else:
                return

    def _check_allowed(self) -> None:
        if not self._allowed():
            raise errors.IndividualCommitNotAllowed("accept.individual.commit is false")

    def _say_once(self, group_id: str, duplicates: int) -> None:
        """Log, once for each group, that it commits offsets twice. This is common: each member also
        commits the offsets that no record has."""
        if duplicates and group_id not in self._said:
            if len(self._said) >= GROUPS_SAID_MAX:
                self._said.clear()
            self._said.add(group_id)
            logger.warning(
                "group %s: %d offsets were committed twice (further ones are only counted)",
                group_id,
                duplicates,
            )

    def _write_due(self, group_id: str) -> None:
        """Write null records for the ranges that are superseded now; nobody waits for them."""
        runtime = self._runtimes.of(group_id)
        if runtime.loaded and runtime.machine(OffsetsMachine).individual.has_due:
            runtime.begin(
                OffsetsMachine,
                lambda machine: (None, machine.individual.take_due()),
                flush=False,
            )


def _pieces(commits: Sequence[RangeCommit]) -> Iterator[list[RangeCommit]]:
    """The commits in pieces of at most RANGES_PER_TURN ranges; the ranges of each partition stay in
    order."""
    piece: list[RangeCommit] = []
    left = RANGES_PER_TURN
    for one in commits:
        at = 0
        while not at or at < len(one.ranges):
            some = one.ranges[at : at + left]
            piece.append(one._replace(ranges=some))
            at += max(1, len(some))
            left -= max(1, len(some))
            if not left:
                yield piece
                piece, left = [], RANGES_PER_TURN
    if piece:
        yield piece
