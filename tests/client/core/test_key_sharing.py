"""The leader of a classic group shares out partitions by key (KIP-X), beside stock members."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.assignors import ASSIGNORS, Subscriber
from sharegroup.client.core.key_sharing import share
from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import common, size, union
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.internal.key_range_data import MAGIC, from_user_data, to_user_data

EAGER = ["range", "roundrobin", "sticky"]
HALF = ((0, HASH_MAX // 2),)


@given(
    st.sampled_from(EAGER),
    st.integers(1, 4),
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.lists(st.integers(0, 7), max_size=4),
)
def test_every_hash_is_with_one_member(
    name: str, partitions: int, takers: list[bool], leavers: list[int]
) -> None:
    """Members come and go; those that take whole partitions only are among them."""
    members = {
        f"m{number}": Subscriber(("t",), parts={} if takes else None)
        for number, takes in enumerate(takers)
    }
    for leaver in [None, *leavers]:
        if leaver is not None:
            members.pop(f"m{leaver}", None)
        if not members:
            return
        given, parts = share(ASSIGNORS[name], members, {"t": partitions})
        held = defaultdict(list)
        for member, wheres in given.items():
            own = parts.get(member, {})
            assert own.keys() <= set(wheres)
            assert not own or members[member].parts is not None, "a stock member has a part"
            for where in wheres:
                held[where].append(own.get(where, WHOLE))
        assert sorted(held) == [TopicPartition("t", n) for n in range(partitions)]
        for ranges in held.values():
            whole = ()
            for one in ranges:
                assert not common(whole, one)
                whole = union(whole, one)
            assert whole == WHOLE
        sharing = [m for m in members if members[m].parts is not None]
        if sharing == list(members):
            assert all(given[member] for member in members), "nobody is idle"
        members = {
            member: one
            if one.parts is None
            else one._replace(parts=parts.get(member, {}), had=frozenset(given[member]))
            for member, one in members.items()
        }


@pytest.mark.parametrize("name", EAGER)
def test_who_stays_keeps_most(name: str) -> None:
    members = {f"m{n}": Subscriber(("t",), parts={}) for n in range(3)}
    given, parts = share(ASSIGNORS[name], members, {"t": 1})
    members = {
        m: one._replace(parts=parts[m], had=frozenset(given[m])) for m, one in members.items()
    }
    new = Subscriber(("t",), parts={})
    _, after = share(ASSIGNORS[name], {**members, "m3": new}, {"t": 1})
    where = TopicPartition("t", 0)
    moved = sum(
        size(own[where]) - size(common(own[where], after[m][where])) for m, own in parts.items()
    )
    assert moved <= (HASH_MAX + 1) // 4 + 4


def test_user_data() -> None:
    a, b = TopicPartition("a", 0), TopicPartition("b", 3)
    assert from_user_data(to_user_data([a, b], {b: HALF})) == ({a, b}, {b: HALF})
    assert from_user_data(to_user_data([], {})) == (set(), {})
    for foreign in (None, b"", b"\0\0\0\1", b"whatever"):
        assert from_user_data(foreign) is None
    for torn in (MAGIC, MAGIC + b"\5", to_user_data([b], {b: HALF})[:-9]):
        with pytest.raises(MalformedMessage):
            from_user_data(torn)
    with pytest.raises(MalformedMessage, match="none of hashes"):
        from_user_data(to_user_data([b], {b: ((-5, 3),)}))
