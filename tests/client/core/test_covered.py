"""What a member commits of partitions that it shares."""

from __future__ import annotations

import pytest

from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition

WHERE = TopicPartition("topic", 0)


def test_by_offset_what_lies_before_the_position() -> None:
    covered = Covered()
    covered.track([WHERE])
    covered.read(WHERE, [(3, 5), (8, 9)], [(6, 6), (10, 10)])
    assert covered.before(WHERE, 0) == ()
    assert covered.before(WHERE, 9) == ((3, 6), (8, 8))


@pytest.mark.parametrize(
    ("offset", "done"),
    [
        (950, ()),  # the first record of all is in work
        (960, ((950, 959),)),
        (464, ((950, 999),)),  # the first of the second turn
        (488, ((464, 487), (950, 999))),
        (700, ((464, 499), (950, 999))),  # between two of its ranges
        (1050, ((464, 499), (750, 799), (950, 999))),  # none is in work
    ],
)
def test_in_turns_what_was_read_before_the_record_in_work(offset: int, done: Intervals) -> None:
    covered = Covered()
    covered.track([WHERE])
    covered.read_turn(WHERE, ((950, 999),), ())
    covered.read_turn(WHERE, ((464, 499), (750, 799)), ())
    assert covered.before(WHERE, offset) == done


def test_a_record_of_an_earlier_turn_in_work_holds_back_the_later_ones() -> None:
    covered = Covered()
    covered.track([WHERE])
    covered.read_turn(WHERE, ((50, 59),), [(60, 61)])
    covered.read_turn(WHERE, ((0, 9),), ())
    assert covered.before(WHERE, 55) == ((50, 54), (60, 61))
    covered.committed(WHERE, ((50, 54), (60, 61)))
    assert covered.before(WHERE, 0) == ((55, 59),)
    assert covered.before(WHERE, 4) == ((0, 3), (55, 59))


def test_in_turns_a_record_in_work_may_be_committed() -> None:
    """The application has committed the records that it has, and works on."""
    covered = Covered()
    covered.track([WHERE])
    covered.read_turn(WHERE, ((10, 19),), ())
    covered.read_turn(WHERE, ((0, 9),), ())
    covered.committed(WHERE, ((0, 4), (10, 19)))
    assert covered.before(WHERE, 0) == ()
    assert covered.before(WHERE, 4) == ()
    assert covered.before(WHERE, 7) == ((5, 6),)


def test_a_jump_keeps_what_lies_before_it() -> None:
    covered = Covered()
    covered.track([WHERE])
    covered.read(WHERE, [(3, 5), (8, 9)], [(6, 6), (10, 10)])
    covered.go_on(WHERE, 9)
    assert covered.before(WHERE, 100) == ((3, 6), (8, 8))
    covered.go_on(WHERE, 50)
    covered.read(WHERE, [(50, 51)], ())
    assert covered.before(WHERE, 100) == ((3, 6), (8, 8), (50, 51))
    covered.go_on(WHERE, 0)
    assert covered.before(WHERE, 100) == ()


def test_the_group_begins_where_its_first_uncommitted_records_were_sought() -> None:
    covered = Covered()
    covered.track([WHERE])
    assert covered.begin(WHERE) is None
    covered.go_on(WHERE, 30)
    covered.go_on(WHERE, 40)
    assert covered.begin(WHERE) == 40, "nothing was read at 30"
    covered.read(WHERE, [(42, 43)], ())
    covered.go_on(WHERE, 60)
    assert covered.begin(WHERE) == 40
    covered.go_on(WHERE, 50)
    covered.committed(WHERE, ((42, 42),))
    assert covered.begin(WHERE) is None
    covered.go_on(WHERE, 60)
    assert covered.begin(WHERE) is None, "the group has begun"
