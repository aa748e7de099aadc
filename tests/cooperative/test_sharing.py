"""Which members share which partition."""

from __future__ import annotations

from sharegroup.cooperative.sharing import share_members


def test_a_member_that_had_all_keeps_one() -> None:
    for by_neighbours in (False, True):
        had = {0: ["a"], 1: ["a"], 2: ["a"]}
        found = share_members([0, 1, 2], ["a", "b", "c", "d"], had, by_neighbours=by_neighbours)
        assert sorted(name for them in found.values() for name in them) == ["a", "b", "c", "d"]
        assert sorted(map(len, found.values())) == [1, 1, 2]
        assert "a" in found[0]
