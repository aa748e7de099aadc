"""Scheduled delivery: records rest until their times, very many of them, and are due on time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharegroup.model.share_state import DelayedRow
from sharegroup.share import schedule
from sharegroup.share.order import log_order
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import AckType, Verb
from sharegroup.share.schedule import NotDue
from sharegroup.share.settings import DeliverySettings

SETTINGS = DeliverySettings(
    lock_ms=30_000, delivery_count_limit=5, record_locks_max=100, scheduled=True
)
HOUR_MS = 3_600_000
READ = 1_000
"""Offsets of one read, which is one log batch."""


def partition(delayed: Sequence[DelayedRow] = ()) -> SharePartition:
    rows = [(one.first, one.last, 0, one.delivery_count) for one in delayed]
    return SharePartition(
        start_offset=0, state_epoch=1, leader_epoch=1, batches=rows, delayed=delayed
    )


def read(
    core: SharePartition, later: Sequence[NotDue], size: int = READ, *, now_ms: int = 0
) -> list[int]:
    """Read the next records, let ``later`` rest, and acquire; returns what was acquired."""
    offset = core.next_fetch_offset()
    base = offset - offset % size
    bounds = [(base, base + size - 1)]
    left = core.let_rest(later, bounds, fetch_offset=offset, now_ms=now_ms, settings=SETTINGS)
    if left is not None:
        bounds = [(base, left - 1)] if left > base else []
    given = core.acquire(
        "anna",
        bounds,
        fetch_offset=offset,
        records_max=500,
        batch_size=500,
        now_ms=now_ms,
        settings=SETTINGS,
    )
    return [at for one in given.ranges for at in range(one.first, one.last + 1)]


def test_what_is_due_is_not_behind_a_million_that_rest() -> None:
    core = partition()
    for base in range(0, 1_000_000, READ):
        assert read(core, [NotDue(base, base + READ - 1, HOUR_MS + base)]) == []
    assert read(core, [], 1) == [1_000_000]
    told = core.statistics()
    assert (told.delayed, told.acquired, told.available) == (1_000_000, 1, 0)
    assert told.spans == 1_001


def test_very_many_times_cost_few_locks() -> None:
    """Each record has a time of its own within a week."""
    core, week_ms = partition(), 7 * 24 * HOUR_MS
    for base in range(0, 20 * READ, READ):
        times = [(at * 7_919_993) % week_ms + HOUR_MS for at in range(base, base + READ)]
        later = [NotDue(base + at, base + at, due_ms) for at, due_ms in enumerate(times)]
        assert read(core, later) == []
    assert read(core, [], 1) == [20 * READ]
    locks = {one.lock for one in core.spans() if one.lock is not None}
    assert len(locks) <= 400


def test_each_is_due_at_its_time() -> None:
    """By the ticks that the core asks for: none comes early, and each comes with the tick at its
    time."""
    core = partition()
    times = [1 + (at * 104_729) % (3 * HOUR_MS) for at in range(READ)]
    assert read(core, [NotDue(at, at, ms) for at, ms in enumerate(times)]) == []
    available, ticks = 0, 0
    while (now_ms := core.next_deadline_ms()) is not None:
        core.tick(now_ms, SETTINGS)
        ticks += 1
        available = core.statistics().available
        rested = core.next_deadline_ms()
        if rested is None or rested > now_ms:
            assert available == sum(one <= now_ms for one in times)
    assert available == READ
    assert ticks <= 10 * READ, "a range moves a few times only"
    core.check_invariants()


@pytest.mark.parametrize("gap", [0, 1])
def test_long_ranges_have_their_own_time(gap: int) -> None:
    core = partition()
    later = [NotDue(at, at + 63, HOUR_MS + at) for at in range(0, READ - 63, 64 + gap)]
    rests = {at for one in later for at in range(one.first, one.last + 1)}
    assert read(core, later) == [at for at in range(READ) if at not in rests]
    core.check_invariants()
    spans = [one for one in core.spans() if one.lock is not None and not one.lock.member_id]
    assert [(one.first, one.last) for one in spans] == [one[:2] for one in later]
    assert [one.lock.deadline_ms for one in spans if one.lock] == [one.due_ms for one in later]


def test_very_many_ranges_move_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOVED_MAX", 10)
    core = partition()
    times = [HOUR_MS + at * 7 for at in range(READ)]
    assert read(core, [NotDue(at, at, ms) for at, ms in enumerate(times)]) == []
    first_ms = core.next_deadline_ms()
    assert first_ms is not None
    assert first_ms < HOUR_MS
    ticks = 0
    while (at_ms := core.next_deadline_ms()) is not None and at_ms <= first_ms:
        core.tick(first_ms, SETTINGS)
        core.check_invariants()
        ticks += 1
    assert 60 <= ticks <= 70, "of 640 ranges, ten at a time"
    assert core.statistics().delayed == READ


def test_a_window_that_is_full_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the edge: with one record less there is room."""
    core = partition()
    assert read(core, [NotDue(0, READ - 1, HOUR_MS)]) == []
    monkeypatch.setattr(log_order, "SCHEDULED_MAX", READ + 1)
    assert core.can_acquire(SETTINGS)
    assert not core.order.is_full(SETTINGS)
    monkeypatch.setattr(log_order, "SCHEDULED_MAX", READ)
    assert not core.can_acquire(SETTINGS)
    assert core.order.is_full(SETTINGS)
    core.tick(HOUR_MS, SETTINGS)
    assert core.statistics().available == READ
    assert not core.order.is_full(SETTINGS)


def test_very_many_runs_of_finished_records_among_them_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each of these there is a row in the durable state; not for one long run."""
    monkeypatch.setattr(log_order, "DELAYED_MAX", 20)
    monkeypatch.setattr(log_order, "COUNTED_EVERY", 1)
    for step, full in ((1, True), (20, False)):
        core = partition()
        later = [NotDue(at, at + step - 1, HOUR_MS) for at in range(0, 40, 2 * step)]
        given = read(core, later, 40)
        assert len(given) == 20
        assert not core.order.is_full(SETTINGS)
        acks = [(at, at, [AckType.ACCEPT]) for at in given]
        core.acknowledge("anna", acks, now_ms=0, settings=SETTINGS)
        assert core.order.is_full(SETTINGS) == full
        assert core.can_acquire(SETTINGS) != full


def test_what_an_operator_releases_goes_out_and_does_not_rest_again() -> None:
    core = partition()
    later = [NotDue(0, 9, HOUR_MS)]
    assert read(core, later, 10) == []
    done = core.decide(3, 4, Verb.RELEASE, now_ms=5, settings=SETTINGS)
    assert done.records == 2
    assert done.change is not None
    assert done.change.delayed == (DelayedRow(3, 4, 0, 5),)
    assert read(core, later, 10, now_ms=6) == [3, 4]
    core.check_invariants()
    # After a restart, too, though their delivery was not durable.
    core = partition(done.change.delayed)
    core.tick(7, SETTINGS)
    assert read(core, later, 10, now_ms=7) == [3, 4]
    assert core.statistics().delayed == 8


def test_an_operator_releases_what_no_fetch_has_seen() -> None:
    core = partition()
    done = core.decide(2, 3, Verb.RELEASE, now_ms=0, settings=SETTINGS)
    assert done.records == 2
    assert read(core, [NotDue(0, 9, HOUR_MS)], 10) == [2, 3]
    assert core.statistics().delayed == 8


def test_what_lies_between_comes_in_as_far_as_there_is_room() -> None:
    core = partition()
    later = [NotDue(at, at, HOUR_MS) for at in range(9, READ, 10)]
    given = read(core, later)
    assert 100 <= len(given) < 110, "to the end of what may be acquired"
    assert not {one.first for one in later}.intersection(given)
    assert core.end_offset < 130
    core.check_invariants()
