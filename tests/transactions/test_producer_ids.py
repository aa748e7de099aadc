"""Producer ids: never one twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.transactions.producer_ids import BLOCK_SIZE, ProducerIdAllocator


@given(runs=st.lists(st.integers(0, 2 * BLOCK_SIZE + 3), max_size=5))
def test_no_id_is_used_twice_after_crashes(runs: list[int]) -> None:
    durable_end = 0
    given_out: set[int] = set()
    for takes in runs:
        allocator = ProducerIdAllocator(durable_end)
        for _ in range(takes):
            end = allocator.needs_block()
            if end is not None:
                durable_end = end
                allocator.claimed(end)
            producer_id = allocator.take()
            assert producer_id not in given_out
            assert producer_id < durable_end
            given_out.add(producer_id)
            allocator.check_invariants()


def test_a_block_serves_a_thousand() -> None:
    allocator = ProducerIdAllocator()
    allocator.claimed(allocator.needs_block() or 0)
    ids = [allocator.take() for _ in range(BLOCK_SIZE)]
    assert ids == list(range(BLOCK_SIZE))
    assert allocator.needs_block() == 2 * BLOCK_SIZE
