"""The ranges of offsets in OffsetCommit and TxnOffsetCommit (KIP-X, "Individual Commit")."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sharegroup.broker.handlers.offsets.committed_partitions import CommitRequestPartitions
from sharegroup.cooperative.intervals import Intervals, normal
from sharegroup.groups.offsets import NONE, Commit
from sharegroup.groups.range_commits import RangeCommit, RangesCommitted
from sharegroup.model.errors import InvalidCommitOffsetSize, InvalidRequest, KafkaError
from sharegroup.model.limits import OFFSET_RANGES_MAX
from sharegroup.model.offsets import OFFSET_MAX


class RangeResults(NamedTuple):
    """The results of a request's partitions, topic by topic."""

    codes: list[list[int]]
    stable: list[list[int]]
    """The stable offset of each partition with ranges; -1 for partitions without ranges."""


def has_ranges(topics: Iterable[Any]) -> bool:
    """Whether a request commits ranges."""
    return any(partition.offset_ranges for topic in topics for partition in topic.partitions)


async def commit_ranges_or_refuse(
    wanted: CommitRequestPartitions,
    topics: Sequence[Any],
    commit: Callable[[Sequence[Commit]], Awaitable[None]],
    commit_ranges: Callable[[Sequence[RangeCommit]], Awaitable[Sequence[RangesCommitted]]],
) -> RangeResults:
    """Commit the plain offsets of a request, then its ranges.

    Args:
        topics: the topics of the request.

    Raises:
        InvalidCommitOffsetSize: there are more than ``OFFSET_RANGES_MAX`` ranges.
    """
    codes = [code for its_codes in wanted.codes for code in its_codes]
    stable = [NONE] * len(codes)
    plain, ranged = _sorted(wanted, topics, codes)
    if plain:
        try:
            await commit(list(plain.values()))
        except KafkaError as error:
            codes = [error.code if at in plain else code for at, code in enumerate(codes)]
    if ranged:
        try:
            answers = await commit_ranges(list(ranged.values()))
        except KafkaError as error:
            codes = [error.code if at in ranged else code for at, code in enumerate(codes)]
        else:
            for at, answer in zip(ranged, answers, strict=True):
                stable[at] = answer.stable
                codes[at] = answer.error.code if answer.error is not None else 0
    return RangeResults(_by_topic(codes, wanted.codes), _by_topic(stable, wanted.codes))


def _sorted(
    wanted: CommitRequestPartitions, topics: Sequence[Any], codes: list[int]
) -> tuple[dict[int, Commit], dict[int, RangeCommit]]:
    """(partitions with a plain offset, partitions with ranges), each by its number. Partitions with
    invalid ranges are in neither, and get an error in ``codes``."""
    ranges = [partition.offset_ranges for topic in topics for partition in topic.partitions]
    if sum(map(len, ranges)) > OFFSET_RANGES_MAX:
        raise InvalidCommitOffsetSize(f"a request can commit {OFFSET_RANGES_MAX} ranges of offsets")
    plain: dict[int, Commit] = {}
    ranged: dict[int, RangeCommit] = {}
    commits = iter(wanted.commits)
    for at, code in enumerate(codes):
        if code:
            continue
        one = next(commits)
        if not ranges[at]:
            plain[at] = one
            continue
        try:
            ranged[at] = RangeCommit(one, _intervals(ranges[at]))
        except InvalidRequest as error:
            codes[at] = error.code
    return plain, ranged


def _intervals(ranges: Sequence[Any]) -> Intervals:
    """The ranges that are not empty. An empty range only sets where a group begins."""
    if any(not 0 <= each.first <= each.last + 1 <= OFFSET_MAX for each in ranges):
        raise InvalidRequest("a range of offsets that ends before it begins")
    return normal((each.first, each.last) for each in ranges if each.first <= each.last)


def _by_topic(values: Sequence[int], like: Sequence[Sequence[int]]) -> list[list[int]]:
    left = iter(values)
    return [[next(left) for _ in each] for each in like]
