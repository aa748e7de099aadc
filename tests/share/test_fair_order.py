"""Tenants take turns: who gets how much, and what waiting records cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.model.limits import FAIR_ENTRIES_MAX, FAIR_WAITING_MAX
from sharegroup.model.share_state import DelayedRow
from sharegroup.share.order.classed_order import fair_order
from sharegroup.share.record_state import AckType
from sharegroup.share.settings import DeliverySettings, Fairness
from tests.share.classed_queue import ClassedQueue
from tests.share.keyed import keyed_partition

SETTINGS = DeliverySettings(
    lock_ms=100, delivery_count_limit=5, record_locks_max=1_000_000, fairness=Fairness()
)


def queue_of(*log: str, settings: DeliverySettings = SETTINGS) -> ClassedQueue:
    """A letter for each tenant."""
    return ClassedQueue(fair_order, ord, settings, *log)


def test_a_late_tenant_is_next_and_does_not_wait_for_very_many_records() -> None:
    queue = queue_of("a" * 100_000, "b" * 100)
    assert queue.letters(50, read=1_000) == "a" * 50
    assert queue.letters(50, read=1_000) == "b" * 50
    assert queue.letters(50, read=1_000) == "a" * 50
    assert queue.letters(50, read=1_000) == "b" * 50
    assert queue.letters(50, read=1_000) == "a" * 50
    assert queue.letters(50, read=1_000) == "a" * 50


def test_tenants_in_one_read_share_a_request() -> None:
    queue = queue_of("aaaaaaaabbc")
    assert sorted(queue.letters(6)) == list("aaabbc")
    assert queue.letters(9) == "aaaaa"


def test_a_tenant_without_others_gets_all() -> None:
    assert queue_of("aaaa").letters(3) == "aaa"


def test_who_comes_is_next() -> None:
    for first, then in ("ab", "ba"):
        queue = queue_of(first * 9)
        assert queue.letters(3) == first * 3
        queue.add(then)
        assert queue.letters(1) == then


def test_of_equal_turns_the_one_that_came_first_is_next() -> None:
    queue = queue_of("zyxwabc" * 3)
    assert [queue.letters(1, read=1) for _ in range(7)] == list("zyxwabc")


def test_nobody_saves_up_turns() -> None:
    """Who had nothing that waited begins where the others are, not where it stopped."""
    queue = queue_of("b" + "a" * 100)
    queue.fetch(80)
    queue.add("b" * 100)
    assert Counter(queue.letters(20)) == {"a": 10, "b": 10}


def test_small_tenants_in_the_reads_of_a_large_one_come_one_after_the_other() -> None:
    """The large tenant gets no more ahead of those elsewhere than one request."""
    queue = queue_of(*["c" + "a" * 99, "d" + "a" * 99, "e" + "a" * 99])
    got = [queue.letters(10, read=100) for _ in range(4)]
    counts = Counter("".join(got))
    assert [counts[one] for one in "cde"] == [1, 1, 1]
    assert counts["a"] <= 20


def test_a_released_record_is_its_tenants_next() -> None:
    queue = queue_of("aaaa")
    assert queue.fetch(2) == [0, 1]
    queue.say(AckType.RELEASE, 1)
    assert queue.fetch(1) == [1]
    queue.say(AckType.ACCEPT, 0, 1)
    assert queue.partition.start_offset == 2


def test_a_record_that_fails_again_and_again_waits_for_its_turn() -> None:
    queue = queue_of("a" + "b" * 9)
    got = ""
    for _ in range(6):
        (at,) = queue.fetch(1)
        got += queue.log[at]
        queue.say(AckType.RELEASE if at == 0 else AckType.ACCEPT, at)
    assert sorted(got) == list("aaabbb")


def test_a_tenant_at_its_limit_lets_the_others_go_on() -> None:
    queue = queue_of("aaabbb", settings=replace(SETTINGS, fairness=Fairness(held_max=2)))
    assert queue.letters(9) == "aabb"
    assert not queue.partition.can_acquire(replace(queue.settings, record_locks_max=4))
    assert queue.fetch(9) == []
    assert queue.partition.next_fetch_offset("m") == 6
    queue.say(AckType.ACCEPT, 3)
    assert queue.fetch(9) == [5]
    queue.settings = SETTINGS
    assert queue.fetch(9) == [2]


def test_a_renewed_record_counts_until_it_is_done() -> None:
    queue = queue_of("aa", settings=replace(SETTINGS, fairness=Fairness(held_max=1)))
    assert queue.fetch(9) == [0]
    queue.say(AckType.RENEW, 0)
    assert queue.fetch(9) == []
    queue.say(AckType.REJECT, 0)
    assert queue.fetch(9) == [1]


@settings(max_examples=40)
@given(st.lists(st.sampled_from("abcd"), min_size=40, max_size=120), st.integers(1, 12))
def test_tenants_that_all_wait_get_the_same(log: list[str], most: int) -> None:
    """However the log is mixed: two tenants with more records than they got have got as many, up to
    one request."""
    queue = queue_of("".join(log))
    got: Counter[str] = Counter()
    while taken := queue.letters(most):
        got.update(taken)
        left = Counter(log) - got
        waiting = [got[one] for one in left]
        if len(waiting) > 1:
            assert max(waiting) - min(waiting) <= most
    assert got == Counter(log)


@settings(max_examples=40)
@given(st.lists(st.sampled_from("abc"), min_size=30, max_size=90), st.integers(1, 9))
def test_reads_of_a_part_of_the_log_are_fair_too(log: list[str], most: int) -> None:
    """A read of a few records finds tenants as they come. None gets further ahead than a request
    beyond the turn of those elsewhere."""
    queue = queue_of(*("".join(log[at : at + 10]) for at in range(0, len(log), 10)))
    got: Counter[str] = Counter()
    while taken := queue.letters(most, read=10):
        left = Counter(log) - got
        least = min(got[one] for one in left)
        got.update(taken)
        for one in set(taken):
            assert got[one] - least <= most + 1
    assert got == Counter(log)


def test_as_many_waiting_records_as_the_limit() -> None:
    """One tenant's records side by side: they take no memory."""
    partition = keyed_partition(order=fair_order)
    size = FAIR_WAITING_MAX - 1
    partition.order.load(range(size), [7] * size, size)
    assert partition.order.may_load
    partition.order.load([FAIR_WAITING_MAX - 1], [7], FAIR_WAITING_MAX)
    assert not partition.order.may_load


@pytest.mark.parametrize(("tenants", "may_load"), [(-1, True), (0, False)])
def test_as_many_stretches_of_tenants_as_the_limit(tenants: int, may_load: bool) -> None:
    size = FAIR_ENTRIES_MAX + tenants
    partition = keyed_partition(order=fair_order)
    partition.order.load(range(size), range(size), size)
    assert partition.order.may_load is may_load
    assert partition.can_acquire(SETTINGS)


def test_weights_say_how_much_each_gets() -> None:
    weights = {ord("a"): 300, ord("b"): 50}
    queue = queue_of("abc" * 100, settings=replace(SETTINGS, fairness=Fairness(weights=weights)))
    got = Counter(queue.letters(9) + queue.letters(9) + queue.letters(9) + queue.letters(9))
    assert got == {"a": 24, "c": 8, "b": 4}


def test_the_least_weight_gets_its_turn() -> None:
    weights = {ord("a"): 10_000, ord("b"): 1}
    queue = queue_of(
        "a" * 30_000, "b", settings=replace(SETTINGS, fairness=Fairness(weights=weights))
    )
    assert "b" in queue.letters(1, read=100) + queue.letters(1, read=100)


def test_a_record_that_rested_while_it_was_loaded_waits_once() -> None:
    """No read passes the record in between, so nothing has tidied up what waits."""
    settings = replace(SETTINGS, fairness=Fairness(held_max=3))
    rests = [DelayedRow(0, 0, 1, 50), DelayedRow(4, 4, 1, 50)]
    partition = keyed_partition(0, [(0, 9, 0, 1)], rests, order=fair_order)
    partition.order.load(range(10), [7] * 10, 10)
    partition.tick(50, settings)
    partition.check_invariants()
    taken: list[int] = []
    while (at := partition.next_fetch_offset("m")) < 10:
        found = partition.acquire(
            "m", [(0, 9)], fetch_offset=at, records_max=9,
            batch_size=500, strict=True, now_ms=50, settings=settings,
        )  # fmt: skip
        offsets = [at for first, last, _ in found.ranges for at in range(first, last + 1)]
        assert len(offsets) == min(3, 10 - len(taken)), "as many as the tenant may have"
        taken += offsets
        acks = [(at, at, [AckType.ACCEPT]) for at in offsets]
        partition.acknowledge("m", acks, now_ms=50, settings=settings)
        partition.check_invariants()
    assert sorted(taken) == [*range(10)]


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from("abcd"), min_size=60, max_size=150),
    st.integers(1, 9),
    st.lists(st.sampled_from([25, 50, 100, 200, 400]), min_size=4, max_size=4),
)
def test_tenants_that_all_wait_get_their_weights(
    log: list[str], most: int, weights: list[int]
) -> None:
    """What two waiting tenants have got, by weight, differs by a request or a record at most."""
    by_name = dict(zip("abcd", weights, strict=True))
    fairness = Fairness(weights={ord(name): weight for name, weight in by_name.items()})
    queue = queue_of("".join(log), settings=replace(SETTINGS, fairness=fairness))
    got: Counter[str] = Counter()
    while taken := queue.letters(most):
        got.update(taken)
        left = Counter(log) - got
        turns = [got[one] * 100 / by_name[one] for one in left]
        if len(turns) > 1:
            assert max(turns) - min(turns) <= most + 100 / min(weights)
    assert got == Counter(log)
