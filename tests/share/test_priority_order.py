"""Higher priorities go first, and the oldest records get their share."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.share.order.classed_order import priority_order
from sharegroup.share.record_state import AckType
from sharegroup.share.schedule import NotDue
from sharegroup.share.settings import DeliverySettings, Priority
from tests.share.classed_queue import ClassedQueue

SETTINGS = DeliverySettings(
    lock_ms=100, delivery_count_limit=5, record_locks_max=1_000_000, priority=Priority(b"p", 0)
)


def queue_of(*log: str, overtakes_max: int = 0) -> ClassedQueue:
    """A digit for each priority."""
    settings = replace(SETTINGS, priority=Priority(b"p", overtakes_max))
    return ClassedQueue(priority_order, int, settings, *log)


def test_an_urgent_record_passes_very_many_others() -> None:
    queue = queue_of("0" * 100_000, "9")
    assert queue.fetch(50, read=1_000) == [100_000]
    assert queue.fetch(50, read=1_000) == list(range(50))
    queue.add("5")
    assert queue.fetch(50, read=1_000) == [100_001]


def test_the_order_of_the_log_within_a_priority() -> None:
    queue = queue_of("130313")
    assert [queue.fetch(1) for _ in range(6)] == [[1], [3], [5], [0], [4], [2]]


def test_a_request_gets_lower_ones_only_after_the_higher_ones() -> None:
    queue = queue_of("0909")
    assert queue.fetch(3) == [0, 1, 3]


def test_what_was_read_is_left_alone_while_a_higher_one_waits_elsewhere() -> None:
    """A record came while the log was read."""
    queue = queue_of("00")
    queue.add("9")
    assert queue.fetch(2, read=2, begin=0) == []
    assert queue.fetch(2, read=1) == [2]
    assert queue.fetch(2, read=2) == [0, 1]


def test_a_released_record_goes_first_again() -> None:
    queue = queue_of("0990")
    assert queue.fetch(2) == [1, 2]
    queue.say(AckType.RELEASE, 2)
    assert queue.fetch(2) == [0, 2]


def test_a_record_that_has_rested_does_not_pass_older_ones() -> None:
    queue = queue_of("5555")
    queue.partition.let_rest(
        [NotDue(1, 2, 50)], [(0, 3)], fetch_offset=0, now_ms=0, settings=queue.settings
    )
    queue.partition.tick(50, queue.settings)
    assert [queue.fetch(1) for _ in range(4)] == [[0], [1], [2], [3]]


def test_after_so_many_overtakes_the_oldest_comes() -> None:
    queue = queue_of("0" * 3, "9" * 9, overtakes_max=3)
    got = "".join(queue.letters(1) for _ in range(12))
    assert got == "999099909990"


def test_overtakes_of_a_large_request_are_made_good_together() -> None:
    queue = queue_of("0" * 9, "9" * 100, overtakes_max=10)
    assert queue.letters(50) == "9" * 50
    assert queue.fetch(50, read=9) == [0, 1, 2, 3, 4]
    assert queue.letters(50) == "9" * 50
    assert queue.letters(50) == "0" * 4


def test_the_oldest_is_the_oldest_of_all_lower_ones() -> None:
    queue = queue_of("0101", "9" * 9, overtakes_max=2)
    assert queue.letters(8) == "9" * 8
    assert queue.fetch(9) == [0, 1, 2, 3, 12]


def test_nothing_is_overtaken_where_nothing_older_waits() -> None:
    queue = queue_of("9" * 9, "0" * 9, overtakes_max=1)
    assert queue.letters(9) == "9" * 9
    queue.add("9")
    assert queue.letters(1) == "9"
    assert queue.letters(1) == "0"


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from("0259"), min_size=1, max_size=60),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_the_oldest_waits_for_a_bounded_number_of_others(
    log: list[str], most: int, overtakes_max: int, read: int
) -> None:
    """While records of the highest priority keep coming: no record waits for more than the limit of
    overtakes, and one request, for each record before it."""
    queue = queue_of("".join(log), overtakes_max=overtakes_max)
    passed = 0
    while queue.partition.start_offset < len(log):
        oldest = queue.partition.start_offset
        queue.add("9" * most)
        got = queue.fetch(most, read=read)
        queue.say(AckType.ACCEPT, *got)
        passed = passed + len(got) if queue.partition.start_offset == oldest else 0
        assert passed < overtakes_max + 2 * most
    assert queue.partition.start_offset >= len(log)
