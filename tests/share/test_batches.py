from __future__ import annotations

import pytest

from sharegroup.share.batches import DeliveryBatches


def test_batches_are_found_by_any_of_their_offsets() -> None:
    batches = DeliveryBatches(5)
    batches.add(5, 9)
    batches.add(10, 19)
    assert [batches.find(offset)[0] for offset in (5, 9, 10, 19)] == [5, 5, 10, 10]
    assert [batches.find(offset)[1] for offset in (5, 9, 10, 19)] == [9, 9, 19, 19]
    batches.check_invariants(5, 20)


def test_offsets_of_a_known_batch_make_no_new_one() -> None:
    batches = DeliveryBatches(0)
    batches.add(0, 9)  # record_limit: acquired up to 4, the log batch ends at 9
    batches.add(5, 7)
    assert batches.find(6) == (0, 9)
    batches.add(8, 14)
    assert batches.find(9) == (0, 9)
    assert batches.find(10) == (10, 14)


def test_a_batch_keeps_its_size_while_the_start_is_inside() -> None:
    batches = DeliveryBatches(0)
    batches.add(0, 9)
    batches.add(10, 19)
    batches.move_start(15)
    assert batches.find(15) == (10, 19)
    batches.check_invariants(15, 20)
    batches.move_start(30)
    batches.add(30, 34)
    assert batches.find(30) == (30, 34)


def test_batches_below_the_start_are_forgotten() -> None:
    batches = DeliveryBatches(0)
    for first in range(0, 10_000, 10):
        batches.add(first, first + 9)
        batches.move_start(first)
    assert len(batches._firsts) < 5


def test_broken_invariants_are_detected() -> None:
    batches = DeliveryBatches(0)
    batches.add(0, 9)
    with pytest.raises(AssertionError):
        batches.check_invariants(0, 11)
