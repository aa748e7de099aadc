"""Order per key at the machine: what the property test beside the naive model does not reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

import pytest

from sharegroup.model.share_state import DelayedRow
from sharegroup.share.order.key_order import RELEASED_MAX, SOFT_LIMIT, WAITING_MAX
from sharegroup.share.partition import SharePartition
from sharegroup.share.pauses import BackOff
from sharegroup.share.record_state import AckType
from sharegroup.share.settings import DeliverySettings
from tests.share.keyed import key_order, keyed_partition

SETTINGS = DeliverySettings(
    lock_ms=100, delivery_count_limit=5, record_locks_max=1_000_000, key_max=100
)


def loaded(keys: Sequence[int]) -> SharePartition:
    partition = keyed_partition()
    key_order(partition).load(range(len(keys)), keys, len(keys))
    return partition


def acquire(
    partition: SharePartition,
    member: str = "m",
    now_ms: int = 0,
    most: int = 10**6,
    *,
    strict: bool = True,
    batch: int = 0,
) -> list[tuple[int, int, int]]:
    """``batch``: how many offsets each log batch has; 0: there is one."""
    at = partition.next_fetch_offset(member)
    end = partition.order.loaded_end
    batches = [(base, min(base + batch, end) - 1) for base in range(at, end, batch or end)]
    batches = batches if batch else batches and [(at, end - 1)]
    found = partition.acquire(
        member,
        batches,
        fetch_offset=at,
        records_max=most,
        batch_size=500,
        strict=strict,
        now_ms=now_ms,
        settings=SETTINGS,
    )
    return [tuple(one) for one in found.ranges]  # type: ignore[misc]


def test_very_many_records_of_a_lock_go_back_in_parts() -> None:
    count = 3 * RELEASED_MAX
    partition = loaded([offset % (count // 2) for offset in range(count)])
    assert acquire(partition) == [(0, count - 1, 1)]
    calls = 0
    while (deadline := partition.next_deadline_ms()) is not None and deadline <= 100:
        change = partition.tick(100, SETTINGS)
        assert change is not None
        assert change.expired <= 2 * RELEASED_MAX, "the first of a key, and the one behind it"
        partition.check_invariants()
        calls += 1
    assert calls >= 2
    half = count // 2
    assert acquire(partition, "n") == [(0, half - 1, 2)], "one of a key until it is through"


def test_records_that_fail_together_rest_together() -> None:
    """A row for each would be a change of the window for each, and a row of durable state."""
    backs_off = replace(SETTINGS, back_off=BackOff(1_000, 1_000))
    partition = loaded(range(2_000))
    acquire(partition)
    change = partition.release_member("m", now_ms=0, settings=backs_off)
    assert change is not None
    assert [(one.first, one.last) for one in change.delayed] == [(0, 1_999)]
    partition.check_invariants()
    partition.tick(2_000, backs_off)
    assert acquire(partition) == [(0, 1_999, 2)]
    each = [(at, at, [AckType.RELEASE]) for at in range(2_000)]
    pauses = [(at, at, 500) for at in range(2_000)]
    change = partition.acknowledge("m", each, now_ms=2_000, settings=SETTINGS, pauses=pauses)
    assert change is not None
    assert change.delayed == (DelayedRow(0, 1_999, 2, 2_506),)
    partition.check_invariants()


@pytest.mark.parametrize("backs_off", [False, True])
def test_each_record_rests_as_long_as_its_member_asks(backs_off: bool) -> None:
    obeyed = replace(SETTINGS, back_off=BackOff(64, 64, 1.0, 0.0) if backs_off else None)
    partition = loaded(range(10))
    acquire(partition)
    answers = [(0, 4, [AckType.RELEASE]), (5, 5, [AckType.ACCEPT]), (6, 9, [AckType.RELEASE])]
    pauses = [(8, 8, 20), (2, 2, 30), (3, 3, 0), (4, 6, 30)]
    change = partition.acknowledge("m", answers, now_ms=0, settings=obeyed, pauses=pauses)
    assert change is not None
    asked = [(2, 2, 30), (4, 4, 30), (6, 6, 30), (8, 8, 20)]
    others = [(0, 1, 64), (7, 7, 64), (9, 9, 64)] if backs_off else []
    found = [(first, last, due_ms) for first, last, _, due_ms in change.delayed]
    assert found == sorted(asked + others)
    partition.check_invariants()
    assert acquire(partition) == (
        [(3, 3, 2)] if backs_off else [(0, 1, 2), (3, 3, 2), (7, 7, 2), (9, 9, 2)]
    )


def test_loading_stops_where_too_many_wait() -> None:
    partition = loaded([7] * WAITING_MAX)
    assert not key_order(partition).may_load
    assert partition.can_acquire(SETTINGS, "m")
    assert acquire(partition, most=1) == [(0, 0, 1)]
    assert key_order(partition).waiting == WAITING_MAX - 1, "the one that is held does not wait"
    key_order(partition).load([WAITING_MAX], [7], WAITING_MAX + 1)
    assert not partition.can_acquire(SETTINGS, "n")
    assert partition.can_acquire(SETTINGS, "m")


def test_damage_and_deletion_let_keys_go_on() -> None:
    partition = loaded([1, 2, 1, 2, 1, 2])
    assert acquire(partition, most=1) == [(0, 0, 1)]
    partition.damaged(1, 2)
    partition.check_invariants()
    assert acquire(partition, "n") == [(3, 3, 1), (5, 5, 1)], "2 is lost, and 4 waits behind 0"
    partition.damaged(6, 9)
    partition.check_invariants()
    assert partition.order.loaded_end == 10
    change = partition.log_start_moved(4)
    assert change is not None
    assert change.start_offset == 4
    partition.check_invariants()
    assert acquire(partition, "o") == [(4, 4, 1)]
    assert partition.acknowledge("o", [(3, 4, [AckType.ACCEPT])], now_ms=0, settings=SETTINGS)
    assert partition.start_offset == 5


def test_a_limit_that_shrinks_loses_nothing_that_is_taken_back() -> None:
    """The count that a record gets back may be at the new limit: it is delivered once more."""
    partition = keyed_partition(batches=[(0, 1, 0, 3)])
    key_order(partition).load([0, 1], [1, 1], 2)
    assert acquire(partition) == [(0, 1, 4)]
    low = DeliverySettings(lock_ms=100, delivery_count_limit=2, record_locks_max=100, key_max=9)
    partition.tick(100, low)
    partition.check_invariants()
    assert [(s.first, s.state.name, s.delivery_count) for s in partition.spans()] == [
        (1, "AVAILABLE", 3)
    ]


def test_while_records_fail_fewer_of_a_key_go_out_at_once() -> None:
    partition = loaded([0] * 49 + [1] + [2] * 50)
    assert acquire(partition, most=100, batch=100) == [(0, 99, 1)], "nothing has failed yet"
    done = [(0, 48, [AckType.ACCEPT]), (49, 49, [AckType.RELEASE])]
    partition.acknowledge("m", done, now_ms=0, settings=SETTINGS)
    partition.acknowledge("m", [(50, 50, [AckType.RELEASE])], now_ms=0, settings=SETTINGS)
    key_order(partition).load(range(100, 200), [3] * 100, 200)
    taken = acquire(partition, most=100, batch=200)
    width = isqrt(2 * ((100 * 3 + 49) // 4 * 3 // 4))
    assert taken == [(49, 50, 2), (100, 100 + width - 1, 1)], "one each of those that have failed"
    partition.check_invariants()


def test_a_log_batch_is_taken_to_its_end_unless_there_is_a_record_limit() -> None:
    partition = loaded([*range(40)])
    assert acquire(partition, most=4, batch=10) == [(0, 3, 1)]
    assert acquire(partition, most=4, batch=10, strict=False) == [(4, 13, 1)], "to its end"
    assert acquire(partition, most=4, strict=False) == [(14, 14 + 4 * SOFT_LIMIT - 1, 1)]
    partition.check_invariants()


def test_a_record_that_became_free_below_what_was_read_is_for_the_next_read() -> None:
    partition = loaded([1, 2, 3, 4])
    assert acquire(partition, most=2) == [(0, 1, 1)]
    begun = partition.next_fetch_offset("n")
    assert begun == 2
    partition.acknowledge("m", [(0, 0, [AckType.RELEASE])], now_ms=0, settings=SETTINGS)
    found = partition.acquire(
        "n",
        [(2, 3)],
        fetch_offset=begun,
        records_max=9,
        batch_size=500,
        now_ms=0,
        settings=SETTINGS,
    )
    assert found.ranges == ()
    assert partition.next_fetch_offset("n") == 0
    assert acquire(partition, "n") == [(0, 0, 2), (2, 3, 1)]
