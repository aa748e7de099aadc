"""Explains a stuck or slow query, from its checkpoint and, if the broker was asked, its answers.
Each finding is a sentence that names a number, its reason and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Final

from sharegroup.model.printable import last_word
from sharegroup.spark.report.checkpoint import Checkpoint, ReportedBatch
from sharegroup.spark.report.queue import Queue

RECENT: Final = 10
"""How many of the last batches count as the present."""
SAME_MIN: Final = 3
"""This many batches in a row with the same number of records of a partition are no coincidence."""
AGAIN_MIN: Final = 0.05
"""The fraction of redelivered records from which a finding is reported."""
LIMIT_MIN: Final = 100
"""The lowest lock limit that can be set."""
NAMED_MAX: Final = 5
STILL_S: Final = 60.0


def findings(checkpoint: Checkpoint, now_s: float, queues: Iterable[Queue] = ()) -> list[str]:
    """The sentences, most urgent first; empty if no problem is visible."""
    asked = list(queues)
    return [
        *_unreadable(checkpoint),
        *_unfinished(checkpoint, now_s),
        *_still(checkpoint, now_s, asked),
        *_others(checkpoint, asked),
        *_unconfirmed(checkpoint.batches[-1]),
        *_at_the_limit(checkpoint, asked),
        *_again(checkpoint),
    ]


def _unreadable(checkpoint: Checkpoint) -> Iterator[str]:
    for reason in checkpoint.unreadable:
        yield f"{reason}: it is left out here, and Spark will not start from it"


def _unfinished(checkpoint: Checkpoint, now_s: float) -> Iterator[str]:
    """The batch that is not finished. Only the last one can be: Spark finishes a batch before it
    plans the next."""
    batch = checkpoint.batches[-1]
    if batch.finished_at is not None:
        return
    age = since(now_s - batch.planned_at)
    locks = _named(batch.locks)
    held = f"has {count(batch.records, 'claimed record')}" if batch.records else "holds no records"
    if locks:
        held = f"holds {locks}"
    yield (
        f"batch {batch.number} {held} since {age} and is not finished: its tasks run, or the query "
        "has stopped; a query that is started again runs it again"
    )


def _still(checkpoint: Checkpoint, now_s: float, queues: list[Queue]) -> Iterator[str]:
    """Records wait, and no batch takes them."""
    batch = checkpoint.batches[-1]
    quiet_s = now_s - (batch.finished_at or batch.planned_at)
    if batch.finished_at is None or quiet_s < STILL_S:
        return
    if not queues and batch.lag:
        yield (
            f"no batch was planned since {since(quiet_s)}, and {batch.lag:,} records were waiting "
            "with the last one: is the query running? --bootstrap-server asks the broker too"
        )
    for queue in queues:
        waiting = {at: lag for at, lag in queue.lag.items() if lag > 0}
        if not queue.exists:
            yield f"the broker has no share group {queue.group_id}: it was deleted, or is elsewhere"
        elif waiting and not set(batch.members) & set(queue.members):
            yield (
                f"no batch was planned since {since(quiet_s)}, {_named(waiting, 'record')} wait, "
                f"and the query is no member of {queue.group_id} now: it is not running; start it"
            )
        elif waiting:
            yield (
                f"no batch was planned since {since(quiet_s)}, though the query is a member of "
                f"{queue.group_id} and {_named(waiting, 'record')} wait: see who holds them with "
                f"`sharegroup groups records --state acquired {last_word(queue.group_id)}`"
            )


def _others(checkpoint: Checkpoint, queues: list[Queue]) -> Iterator[str]:
    """Records that other members than this query hold."""
    own = set(checkpoint.batches[-1].members)
    for queue in queues:
        held: dict[str, int] = {}
        for by_member in queue.held.values():
            for member, count in by_member.items():
                if member not in own:
                    held[member] = held.get(member, 0) + count
        gone = {member: count for member, count in held.items() if member not in queue.members}
        there = {member: count for member, count in held.items() if member in queue.members}
        if there:
            yield (
                f"{sum(there.values()):,} records are held by other members of {queue.group_id}: "
                f"{_listed(there)}"
            )
        if gone:
            yield (
                f"{sum(gone.values()):,} records of {queue.group_id} are held by members that have "
                f"left ({_listed(gone)}): they come again when their locks end"
            )


def _unconfirmed(batch: ReportedBatch) -> Iterator[str]:
    waiting = batch.unconfirmed
    if waiting:
        yield (
            f"{_named(waiting, 'record')} are done, and the broker has not confirmed it: the query "
            "acknowledges them when they come again, and does not process them twice"
        )


def _at_the_limit(checkpoint: Checkpoint, queues: list[Queue]) -> Iterator[str]:
    """Batches bounded by the lock limit: throughput of a partition is locks / batch seconds."""
    recent = [batch for batch in checkpoint.batches if batch.records][-RECENT:]
    limit = max((queue.locks_max or 0 for queue in queues), default=0)
    if limit:
        full = {at for batch in recent for at, held in batch.locks.items() if held >= limit}
        same = dict.fromkeys(sorted(full), limit)
    else:
        same = _same_each_time(recent)
    if not same:
        return
    held = max(same.values())
    reason = "the group's limit of locks" if limit else "a limit, of locks or maxOffsetsPerTrigger"
    rate = ""
    if seconds := [took for batch in recent if (took := batch_s(batch)) is not None]:
        a_batch = max(median(seconds), 0.001)
        rate = (
            f"; at {a_batch:.2g} s a batch that is {held / a_batch:,.0f} records/s of a partition"
        )
    yield (
        f"a batch takes {held:,} records of {', '.join(sorted(same)[:NAMED_MAX])} and no more: "
        f"{reason}{rate}. Raise the limit (recordLocksPerPartition for a new group, its config "
        "share.partition.max.record.locks for this one, or share.partition.wide.record.locks where "
        "that is set), or make batches shorter"
    )


def _same_each_time(recent: list[ReportedBatch]) -> dict[str, int]:
    last = recent[-SAME_MIN:]
    if len(last) < SAME_MIN:
        return {}
    high = max((held for batch in last for held in batch.locks.values()), default=0)
    return {
        at: held
        for at, held in last[-1].locks.items()
        if held == high >= LIMIT_MIN and all(batch.locks.get(at) == held for batch in last)
    }


def _again(checkpoint: Checkpoint) -> Iterator[str]:
    recent = [batch for batch in checkpoint.batches if batch.records][-RECENT:]
    records = sum(batch.records for batch in recent)
    again = sum(batch.redelivered for batch in recent)
    if records and again / records >= AGAIN_MIN:
        yield (
            f"{again:,} of the {records:,} records of the last {count(len(recent), 'batch')} were "
            "delivered before: they were released, or their locks ended before their batch did"
        )


def batch_s(batch: ReportedBatch) -> float | None:
    """How long a batch took, all phases that are known."""
    if batch.run_s is None:
        return None
    return batch.run_s + (batch.acquire_s or 0.0) + (batch.settle_s or 0.0)


def since(seconds: float) -> str:
    """A duration in words, such as ``12 min``."""
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def count(number: int, noun: str) -> str:
    """``1 batch``, ``2 batches``."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _named(counts: Mapping[str, int], noun: str = "lock") -> str:
    """``2,000 locks of jobs-3``, or the number of partitions if there are several."""
    if not counts:
        return ""
    total = count(sum(counts.values()), noun)
    if len(counts) == 1:
        return f"{total} of {next(iter(counts))}"
    return f"{total} ({_listed(counts)})"


def _listed(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda one: -one[1])
    named = [f"{name}: {number:,}" for name, number in most[:NAMED_MAX]]
    more = len(most) - len(named)
    return ", ".join([*named, f"{more} more"] if more else named)
