"""Decisions of an operator about records, and what becomes of their holders' answers."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.limits import AHEAD_MAX, TAKEN_RANGES_MAX
from sharegroup.share.by_hand import Decided, TakenByHand
from sharegroup.share.partition import SharePartition
from sharegroup.share.pauses import BackOff
from sharegroup.share.record_state import Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.window import Window

SETTINGS = DeliverySettings(lock_ms=100, delivery_count_limit=3, record_locks_max=50)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def partition() -> SharePartition:
    return SharePartition(start_offset=0, state_epoch=1, leader_epoch=1)


def take(real: SharePartition, member: str, last: int, now_ms: int = 0) -> list[tuple[int, ...]]:
    """Acquire up to offset ``last``."""
    offset = real.next_fetch_offset(member)
    got = real.acquire(
        member, [(offset, last)], fetch_offset=offset, records_max=100, batch_size=100,
        now_ms=now_ms, settings=SETTINGS,
    )  # fmt: skip
    return [tuple(one) for one in got.ranges]


def decide(real: SharePartition, first: int, last: int, kind: int, **more: int) -> Decided:
    now_ms = more.pop("now_ms", 0)
    done = real.decide(first, last, Verb(kind), now_ms=now_ms, settings=SETTINGS, **more)
    real.check_invariants()
    assert done.end == last + 1
    return done


def answer(real: SharePartition, member: str, *batches: tuple[int, int, int]) -> int:
    """How many of the records are late."""
    change = real.acknowledge(
        member, [(a, b, [kind]) for a, b, kind in batches], now_ms=0, settings=SETTINGS
    )
    return 0 if change is None else change.late


def states(real: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(one.first, one.last, one.state.name, one.delivery_count) for one in real.spans()]


def test_a_late_answer_does_not_spoil_the_others() -> None:
    real = partition()
    assert take(real, "a", 9) == [(0, 9, 1)]
    done = decide(real, 3, 5, ACCEPT)
    assert (done.records, done.held) == (3, 3)
    assert answer(real, "a", (0, 9, REJECT)) == 3
    assert real.late == 3
    assert (real.start_offset, real.in_flight_count) == (10, 0), "the others are rejected"


def test_answers_for_what_has_left_the_window_are_late_too() -> None:
    real = partition()
    take(real, "a", 9)
    assert decide(real, 0, 5, REJECT).records == 6
    assert real.start_offset == 6
    assert answer(real, "a", (4, 7, ACCEPT)) == 2
    with pytest.raises(InvalidRecordState, match="decided about 1 of the records"):
        answer(real, "a", (0, 0, ACCEPT))
    assert answer(real, "a", (0, 0, ACCEPT)) == 0, "finished long ago, as with everybody"
    assert real.late == 3


def test_what_its_member_gets_again_is_its_own() -> None:
    real = partition()
    take(real, "a", 4)
    assert decide(real, 1, 2, RELEASE).held == 2
    assert take(real, "a", 4) == [(1, 2, 2)]
    assert answer(real, "a", (0, 4, ACCEPT)) == 0
    assert (real.start_offset, real.late) == (5, 0)


def test_another_member_may_hold_it_by_then() -> None:
    real = partition()
    take(real, "a", 4)
    decide(real, 1, 2, RELEASE)
    assert take(real, "b", 4) == [(1, 2, 2)]
    assert answer(real, "a", (0, 4, ACCEPT)) == 2
    assert states(real) == [(1, 2, "ACQUIRED", 2), (3, 4, "ACKNOWLEDGED", 0)]
    assert answer(real, "b", (1, 2, ACCEPT)) == 0


def test_a_release_never_archives() -> None:
    real = partition()
    for count in (1, 2, 3):
        assert take(real, "a", 0) == [(0, 0, count)]
        if count < 3:
            answer(real, "a", (0, 0, RELEASE))
    done = decide(real, 0, 0, RELEASE)
    assert done.change is not None
    assert done.change.batches == ((0, 0, 0, 2),)
    assert done.change.lowers
    assert take(real, "b", 0) == [(0, 0, 3)]
    assert decide(real, 0, 0, ACCEPT).records == 1
    assert decide(real, 0, 0, RELEASE).records == 0


def test_a_release_ends_a_rest_also_after_a_restart() -> None:
    rests = DeliverySettings(
        lock_ms=100, delivery_count_limit=3, record_locks_max=50, back_off=BackOff(500, 500)
    )
    real = partition()
    take(real, "a", 0)
    first = real.acknowledge("a", [(0, 0, [RELEASE])], now_ms=0, settings=rests)
    done = decide(real, 0, 0, RELEASE, now_ms=7)
    assert states(real) == [(0, 0, "AVAILABLE", 1)]
    assert first is not None
    assert done.change is not None
    rows = (*done.change.delayed, *first.delayed)  # the newest first, as durable state has them
    again = SharePartition(
        start_offset=0, state_epoch=1, leader_epoch=1, batches=done.change.batches, delayed=rows
    )
    assert again.next_deadline_ms() == 7, "and not in half a second"


def test_extend_is_never_shorter() -> None:
    real = partition()
    take(real, "a", 3)
    done = decide(real, 1, 2, RENEW, extend_ms=1_000)
    assert (done.records, done.change) == (2, None)
    assert decide(real, 0, 9, RENEW, extend_ms=50).records == 4
    assert real.next_deadline_ms() == 100
    change = real.tick(100, SETTINGS)
    assert change is not None
    assert change.expired == 2
    assert real.next_deadline_ms() == 1_000


def test_records_that_were_never_delivered() -> None:
    real = partition()
    assert decide(real, 2, 4, REJECT).records == 3
    assert states(real) == [(0, 1, "AVAILABLE", 0), (2, 4, "ARCHIVED", 0)]
    assert decide(real, 6, 9, RELEASE).records == 0
    assert real.end_offset == 5
    assert take(real, "a", 6) == [(0, 1, 1), (5, 6, 1)]


def test_how_far_ahead_one_may_decide() -> None:
    real = partition()
    with pytest.raises(InvalidRecordState, match="too far past the records that were delivered"):
        real.decide(AHEAD_MAX + 1, AHEAD_MAX + 1, Verb.ACCEPT, now_ms=0, settings=SETTINGS)
    assert real.end_offset == 0
    assert decide(real, AHEAD_MAX, AHEAD_MAX + 5, ACCEPT).records == 6


def test_how_many_ranges_are_remembered() -> None:
    window, taken = Window(0), TakenByHand()
    taken.add([("a", 2 * at, 2 * at) for at in range(TAKEN_RANGES_MAX)])
    assert taken.late("a", [(0, 1, [ACCEPT])], window) == ([(1, 1, [ACCEPT])], 1)
    taken.add([("b", 0, 9)])
    assert taken.late("a", [(2, 2, [ACCEPT])], window) == ([], 1), "there is room for b's"
    taken.add([("b", 20, 20), ("b", 30, 30)])
    assert taken.late("a", [(4, 4, [ACCEPT])], window) == ([(4, 4, [ACCEPT])], 0), "forgotten"
    assert taken.late("b", [(20, 30, [ACCEPT])], window)[1] == 2
    taken.forget("b")
    assert not taken


def test_a_member_that_has_left_is_not_late() -> None:
    real = partition()
    take(real, "a", 3)
    decide(real, 1, 3, REJECT)
    real.release_member("a", now_ms=0, settings=SETTINGS)
    with pytest.raises(InvalidRecordState):
        answer(real, "a", (1, 1, ACCEPT))
    assert real.late == 0
