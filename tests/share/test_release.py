from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.model.share_state import StateBatch
from sharegroup.share import release
from tests.share.leader import SETTINGS, Leader


def test_what_two_locks_held_side_by_side_is_one_batch_of_the_change() -> None:
    leader = Leader()
    leader.acquire((0, 4), member="m")
    leader.acquire((5, 9), member="n")
    change = leader.tick(100)
    assert change is not None
    assert change.batches == (StateBatch(0, 9, 0, 1),)
    assert change.made_available == 10


@pytest.mark.parametrize("spans_max", [1, 2, 3, 4, 100])
def test_records_in_a_few_places_of_a_large_window(
    monkeypatch: pytest.MonkeyPatch, spans_max: int
) -> None:
    monkeypatch.setattr(release, "SPANS_MAX", spans_max)
    leader = Leader()
    leader.settings = replace(SETTINGS, record_locks_max=1_000)
    leader.acquire((0, 499), member="n")
    leader.acknowledge((1, 499, [1, 2] * 249 + [1]), member="n")
    leader.now_ms = 10
    for offset in (100, 300):
        assert leader.acquire((offset, offset), fetch_offset=offset, member="m")
    changes = [leader.partition.release_member("m", now_ms=10, settings=leader.settings)]
    leader.partition.check_invariants()
    while leader.partition.next_deadline_ms() == 10:
        changes.append(leader.tick(10))
    assert [batch for change in changes if change for batch in change.batches] == [
        StateBatch(100, 100, 0, 2),
        StateBatch(300, 300, 0, 2),
    ]
    assert leader.partition.next_deadline_ms() == 100, "the other member holds on"
