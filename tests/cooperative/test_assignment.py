"""What a member that joins or leaves moves, under every rule by which partitions are shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.assignors import ASSIGNORS, Subscriber
from sharegroup.client.core.key_sharing import share
from sharegroup.cooperative.assignment import one_owner_each, share_partitions
from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, minus, normal, size
from sharegroup.groups.consumer.ranges import assign_ranges
from sharegroup.groups.consumer.uniform import assign_uniformly
from sharegroup.model.ids import TopicPartition

Held = dict[str, dict[tuple[Any, int], Intervals]]
"""Member → partition → its hashes."""
Rule = Callable[[list[str], Mapping[Any, int], Held], Held]
SPACE = HASH_MAX + 1
SEQUENCES, STEPS = 150, 8
"""Of each rule; five rules make 6,000 joins and leaves."""


def as_leader(name: str) -> Rule:
    """The rule of a classic group's leader."""

    def assign(members: list[str], topics: Mapping[Any, int], before: Held) -> Held:
        subscribers = {
            member: Subscriber(
                tuple(topics),
                parts={
                    TopicPartition(*where): part
                    for where, part in before.get(member, {}).items()
                    if part != WHOLE
                },
                had=frozenset(TopicPartition(*where) for where in before.get(member, {})),
            )
            for member in members
        }
        given, parts = share(ASSIGNORS[name], subscribers, topics)
        return {
            member: {tuple(where): parts.get(member, {}).get(where, WHOLE) for where in wheres}
            for member, wheres in given.items()
        }

    return assign


def as_broker(name: str) -> Rule:
    """The rule of a group with the consumer protocol."""

    def assign(members: list[str], topics: Mapping[Any, int], before: Held) -> Held:
        wanted = {member: frozenset(topics) for member in members}
        numbers = {topic: range(count) for topic, count in topics.items()}
        targets: dict[str, dict[UUID, tuple[int, ...]]] = {}
        had_parts: dict[str, dict[UUID, dict[int, Intervals]]] = {}
        for member, held in before.items():
            for (topic, at), part in sorted(held.items()):
                own = targets.setdefault(member, {})
                own[topic] = (*own.get(topic, ()), at)
                if part != WHOLE:
                    had_parts.setdefault(member, {}).setdefault(topic, {})[at] = part
        new = (
            assign_ranges(wanted, numbers, {})
            if name == "range"
            else assign_uniformly(wanted, numbers, one_owner_each(targets, had_parts))
        )
        given, parts = share_partitions(
            new, wanted, (targets, had_parts), by_neighbours=name == "range"
        )
        return {
            member: {
                (topic, at): parts.get(member, {}).get(topic, {}).get(at, WHOLE)
                for topic, own in topics_of.items()
                for at in own
            }
            for member, topics_of in given.items()
        }

    return assign


RULES = {
    "broker, uniform": as_broker("uniform"),
    "broker, range": as_broker("range"),
    "leader, range": as_leader("range"),
    "leader, roundrobin": as_leader("roundrobin"),
    "leader, sticky": as_leader("sticky"),
}


def of_partitions(held: Held) -> dict[tuple[Any, int], dict[str, Intervals]]:
    found: dict[tuple[Any, int], dict[str, Intervals]] = {}
    for member, own in held.items():
        for where, part in own.items():
            found.setdefault(where, {})[member] = part
    return found


def check_moves(before: Held, after: Held) -> None:
    """No more than the counts demand: of a partition whose members are the same, nothing; where
    one came, the share that it gets; where one went, the share that it had."""
    then, now = of_partitions(before), of_partitions(after)
    for where, sharers in now.items():
        had = then[where]
        assert normal(one for part in sharers.values() for one in part) == WHOLE
        assert sum(map(size, sharers.values())) == SPACE
        moved = sum(size(minus(part, had.get(member, ()))) for member, part in sharers.items())
        most = max(len(had), len(sharers))
        bound = SPACE - SPACE * len(had.keys() & sharers.keys()) // most
        assert moved <= (bound + most if bound else 0), (where, had, sharers)


def homes_left(before: Held, after: Held, topic: Any) -> list[str]:
    """Members with another partition of a topic than before."""

    def of(held: Held, member: str) -> set[int]:
        return {at for name, at in held[member] if name == topic}

    return [m for m in after if m in before and not of(after, m) <= of(before, m)]


@pytest.mark.parametrize("name", RULES)
def test_a_join_or_a_leave_moves_what_it_must(name: str) -> None:
    """Names are drawn at random, so that a member comes anywhere between the others."""
    chance, rule = Random(name), RULES[name]
    for _ in range(SEQUENCES):
        topics: dict[Any, int] = {
            UUID(int=number + 1) if "broker" in name else f"t{number}": chance.randint(1, 4)
            for number in range(chance.randint(1, 2))
        }
        fewest = max(topics.values())
        members = [f"{chance.random()}" for _ in range(chance.randint(fewest, 2 * fewest + 2))]
        held = rule(members, topics, {})
        for _ in range(STEPS):
            joins = len(members) == fewest or chance.random() < 0.5
            gone = "" if joins else chance.choice(members)
            now = [*members, f"{chance.random()}"] if joins else [m for m in members if m != gone]
            after = rule(now, topics, held)
            check_moves(held, after)
            for topic in topics:
                assert len(homes_left(held, after, topic)) <= (0 if joins else 1)
            assert rule(now, topics, after) == after, "nothing changes without a cause"
            members, held = now, after


def test_who_has_a_whole_partition_keeps_it_when_others_join() -> None:
    """Members that take whole partitions only, under ``uniform``, among those that share."""
    chance = Random(3)
    for _ in range(100):
        count = chance.randint(2, 4)
        takes = {f"{chance.random()}": chance.random() < 0.75 for _ in range(2 * count)}
        targets: Mapping[str, Mapping[UUID, tuple[int, ...]]] = {}
        parts: Mapping[str, Mapping[UUID, Mapping[int, Intervals]]] = {}
        for _ in range(STEPS):
            wanted = {member: [UUID(int=1)] for member in takes}
            sizes = {UUID(int=1): range(count)}
            new = assign_uniformly(wanted, sizes, one_owner_each(targets, parts))
            takers = {member: topics for member, topics in wanted.items() if takes[member]}
            after, parts = share_partitions(new, takers, (targets, parts), by_neighbours=False)
            stays = [member for member in targets if not takes[member]]
            assert all(after[member] == targets[member] for member in stays)
            targets = after
            takes[f"{chance.random()}"] = True


FIVE = ["c1", "c2", "c3", "c4", "c5"]


def sharers(rule: str, topics: Mapping[str, int]) -> dict[tuple[Any, int], list[str]]:
    found = of_partitions(RULES[rule](FIVE, topics, {}))
    return {where: sorted(them) for where, them in found.items()}


def test_the_draft_s_first_example() -> None:
    assert sharers("leader, roundrobin", {"tp": 3}) == {
        ("tp", 0): ["c1", "c4"],
        ("tp", 1): ["c2", "c5"],
        ("tp", 2): ["c3"],
    }


def test_the_draft_s_second_example() -> None:
    assert sharers("leader, range", {"t1": 2, "t2": 3}) == {
        ("t1", 0): ["c1", "c2", "c3"],
        ("t1", 1): ["c4", "c5"],
        ("t2", 0): ["c1", "c2"],
        ("t2", 1): ["c3", "c4"],
        ("t2", 2): ["c5"],
    }
