from __future__ import annotations

from sharegroup.share.locks import LockTable


def test_one_lock_per_member_and_deadline() -> None:
    table = LockTable()
    lock = table.take("m", 10)
    assert table.take("m", 10) is lock
    assert table.take("m", 11) is not lock
    assert table.take("n", 10) is not lock
    assert table.members() == 2
    assert len(table.of_member("m")) == 2
    assert table.of_member("nobody") == []


def test_deadlines_come_in_order_and_dropped_locks_are_skipped() -> None:
    table = LockTable()
    late, early, middle = table.take("m", 30), table.take("n", 10), table.take("m", 20)
    table.drop(early)
    assert table.next_deadline_ms() == 20
    assert table.expired(19) == []
    assert table.expired(20) == [middle]
    table.drop(middle)
    table.drop(late)
    assert table.next_deadline_ms() is None
    assert table.members() == 0


def test_a_lock_renewed_to_the_same_deadline_expires_once() -> None:
    table = LockTable()
    table.drop(table.take("m", 10))
    lock = table.take("m", 10)
    assert table.expired(10) == [lock]


def test_ranges_that_adjoin_are_joined() -> None:
    lock = LockTable().take("m", 10)
    lock.add_range(0, 4)
    lock.add_range(5, 9)
    lock.add_range(20, 21)
    assert lock.ranges == [(0, 9), (20, 21)]


def test_dropped_locks_do_not_accumulate_behind_a_long_one() -> None:
    table = LockTable()
    table.take("slow", 0)
    for deadline_ms in range(1, 1_000):
        table.drop(table.take("fast", deadline_ms))
    assert len(table._heap) < 100
    assert table.next_deadline_ms() == 0


def test_a_lock_that_ends_sooner_is_due_again_and_hides_no_other() -> None:
    table = LockTable()
    late, early = table.take("m", 30), table.take("m", 10)
    assert table.expired(10) == [early]
    table.end_at(early, 10)
    table.end_at(late, 10)
    assert table.next_deadline_ms() == 9
    assert table.expired(10) == [late, early]
