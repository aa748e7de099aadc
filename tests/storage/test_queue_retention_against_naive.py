"""Which segments retention removes where a topic names share groups: real logs against a naive
model that looks at every record, over restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.model.ids import TopicPartition
from sharegroup.model.log_settings import LogSettings
from sharegroup.model.retention import EVERYTHING, Needed
from sharegroup.sim import MemoryDisk
from sharegroup.storage import LocalPartitionLog
from tests.storage.support import (
    NOW_MS,
    StillClock,
    append_durably,
    batch,
    one_log,
    opened,
    run,
)

PATH = Path("/data")
WHERE = TopicPartition("t", 0)
LIMITS_MS = st.sampled_from([-1, 0, 20, 60])
LIMITS_BYTES = st.sampled_from([-1, 0, 700, 1500])
RULES = st.builds(
    LogSettings,
    segment_bytes=st.just(400),
    retention_ms=LIMITS_MS,
    retention_bytes=LIMITS_BYTES,
    cap_ms=LIMITS_MS,
    cap_bytes=LIMITS_BYTES,
    names_groups=st.booleans(),
    drops_finished=st.booleans(),
)


@dataclass
class Group:
    """A share group as the model knows it: every record by itself."""

    begun: bool
    needs: set[int]
    """Offsets of records that it has not finished, or would get if it began now."""


GROUPS = st.lists(
    st.builds(Group, begun=st.booleans(), needs=st.sets(st.integers(0, 40), max_size=5)),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 80), min_size=1, max_size=8)),
        st.tuples(st.just("retain"), st.none() | GROUPS, st.integers(0, 100)),
        st.tuples(st.just("retain"), GROUPS, st.integers(0, 100)),
        st.tuples(st.just("restart")),
    ),
    min_size=3,
    max_size=14,
)


def needed_by(groups: list[Group], end: int) -> Needed:
    """What the broker would tell the store."""
    firsts = [min(group.needs, default=end) for group in groups]
    done = [first if group.begun else 0 for first, group in zip(firsts, groups, strict=True)]
    return Needed(min(firsts), min(done))


@dataclass
class Piece:
    """A segment, by its records."""

    offsets: range
    size: int
    newest_ms: int


def pieces(log: LocalPartitionLog, times: list[int]) -> list[Piece]:
    return [
        Piece(
            range(segment.base_offset, segment.next_offset),
            segment.size,
            max(times[segment.base_offset : segment.next_offset], default=0),
        )
        for segment in log.cleaning.segments
    ]


def start_after(
    log: LocalPartitionLog, times: list[int], groups: list[Group] | None, at: int
) -> int:
    """Where the model lets the log begin after a retention check at ``at``."""
    rules, found = log.settings, pieces(log, times)
    end = found[-1].offsets.stop
    for number, piece in enumerate(found):
        if not piece.size:
            return piece.offsets.start
        newer = sum(later.size for later in found[number + 1 :])
        age = at - piece.newest_ms

        def past(limit_ms: int, limit_bytes: int, age: int = age, newer: int = newer) -> bool:
            return -1 < limit_ms < age or -1 < limit_bytes <= newer

        expired = past(rules.retention_ms, rules.retention_bytes)
        capped = expired and past(rules.cap_ms, rules.cap_bytes)
        everyone = groups or [Group(False, set(range(end)))]
        unneeded = all(not (set(range(piece.offsets.stop)) & group.needs) for group in everyone)
        finished = unneeded and all(group.begun for group in everyone)
        closed = number + 1 < len(found)
        if not rules.names_groups:
            goes = expired
        else:
            goes = (
                (expired and unneeded)
                or capped
                or (rules.drops_finished and finished and closed and not expired)
            )
        if not goes:
            return piece.offsets.start
    return end


@settings(max_examples=150, deadline=None)
@given(RULES, STEPS)
def test_the_same_segments_go_as_in_the_model(rules: LogSettings, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    async def main() -> None:
        disk, clock, times = MemoryDisk(), StillClock(), list[int]()
        todo = list(steps)
        while todo:
            async with opened(PATH, rules, disk=disk, clock=clock) as folder:
                log = await one_log(folder)
                assert log.log_end_offset == len(times)
                while todo and todo[0][0] != "restart":
                    step = todo.pop(0)
                    if step[0] == "write":
                        for ago in step[1]:
                            times.append(NOW_MS - ago)
                            await append_durably(log, batch(b"v" * 50, timestamp_ms=times[-1]))
                        continue
                    groups, later = step[1:]
                    at = NOW_MS + later
                    expected = start_after(log, times, groups, at)
                    needed = {WHERE: needed_by(groups, len(times))} if groups else {}
                    for _ in range(2):  # the first may only close a segment
                        before = log.log_start_offset
                        folder.enforce_retention(at, needed)
                        await folder.flusher.idle()
                        assert log.log_start_offset >= before
                    assert log.log_start_offset == expected
                    assert log.cleaning.needed == needed.get(WHERE, log.cleaning.needed)
                    log.check_invariants()
                todo = todo[1:]

    run(main())


def test_a_log_that_nobody_has_asked_about_keeps_everything() -> None:
    async def main() -> None:
        rules = LogSettings(segment_bytes=400, retention_ms=0, names_groups=True)
        async with opened(PATH, rules, disk=MemoryDisk()) as folder:
            log = await one_log(folder)
            await append_durably(log, *(batch(b"v" * 50) for _ in range(20)))
            assert log.cleaning.needed == EVERYTHING
            assert folder.enforce_retention(NOW_MS + 1000) == 0
            assert log.log_start_offset == 0

    run(main())
