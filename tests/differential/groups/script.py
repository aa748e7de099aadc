"""Random scripts of what members of a consumer group and administrators do, each from a seed.

A step's values say in words what is asked, and what is wrong with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.differential.script import Step

MEMBERS = 4
"""m0 and m1 are dynamic members; m2 and m3 share an instance id."""

VERSIONS: dict[str, tuple[int, ...]] = {
    "join_group": (3, 4, 5, 8, 9, 9),
    "sync_group": (3, 4, 5, 5),
    "heartbeat": (3, 4),
    "leave_group": (1, 3, 5, 5),
    "offset_commit": (4, 6, 8, 9, 10),
    "offset_fetch": (1, 2, 7, 8, 9, 10),
    "describe_groups": (4, 5, 6),
    "list_groups": (4, 5, 5),
    "delete_groups": (1, 2),
}

Choices = tuple[tuple[str, ...], ...]
"""For each value of a step, what it may be; what comes often stands there often."""

OFFSET_CASES = (
    *("member", "member", "member", "simple", "simple", "old generation", "stranger"),
    *("unknown topic", "unknown partition", "large metadata", "null metadata", "no topics"),
    *("no generation", "no member", "negative offset", "unknown group", "other instance"),
)
FETCH_CASES = (
    *("all", "all", "some", "some", "unknown topic", "unknown partition", "several groups"),
    *("unknown group", "stable", "stranger", "no topics", "member"),
)
# verb -> how often it comes, and what its values may be
CLASSIC: dict[str, tuple[int, Choices]] = {
    "join": (
        16,
        (
            ("own", "own", "own", "own", "own", "none", "stranger"),
            ("range", "range", "range", "range+sticky", "sticky", "none"),
            ("topic", "topic", "other", "garbage"),
            ("consumer",) * 9 + ("connect", ""),
            ("long",) * 15 + ("too short",),
        ),
    ),
    "sync": (
        12,
        (
            ("right",) * 8
            + ("old generation", "stranger", "other protocol", "other type", "no protocol")
            + ("to strangers", "other instance", "unknown group"),
        ),
    ),
    "settle": (10, ()),
    "heartbeat": (
        8,
        (("right",) * 3 + ("old generation", "stranger", "unknown group", "other instance"),),
    ),
    "leave": (
        6,
        (
            ("right",) * 5
            + ("stranger", "unknown group", "by instance", "other instance", "twice")
            + ("right and stranger", "nobody"),
        ),
    ),
}
OFFSETS: dict[str, tuple[int, Choices]] = {
    "commit": (12, (OFFSET_CASES, ("0", "1", "2"))),
    "fetch_offsets": (8, (FETCH_CASES,)),
    "delete_offsets": (
        4,
        (("topic", "topic", "unknown topic", "unknown partition", "unknown group", "two"),),
    ),
}
LOOKS: dict[str, tuple[int, Choices]] = {
    "describe": (6, (("group", "group", "group", "unknown group"),)),
    "list_groups": (
        3,
        (
            ("any", "any", "Stable", "Empty", "PreparingRebalance", "nonsense"),
            ("any", "classic", "Consumer", "nonsense"),
        ),
    ),
    "delete_group": (2, (("group", "unknown group", "no name"),)),
}
VERBS = CLASSIC | OFFSETS | LOOKS


@dataclass(frozen=True, slots=True)
class GroupScript:
    """The versions that are spoken, and the steps."""

    seed: int
    versions: dict[str, int]
    steps: list[Step] = field(default_factory=list)


def random_group_script(seed: int, length: int = 35) -> GroupScript:
    """The script of a seed: the same one for ever."""
    rng = random.Random(seed)
    versions = {api: rng.choice(known) for api, known in VERSIONS.items()}
    script = GroupScript(seed, versions)
    if rng.random() < 0.8:
        script.steps.append(Step("join", 0, ("own", "range", "topic", "consumer", "long")))
        script.steps.append(Step("settle"))
    weights = [weight for weight, _ in VERBS.values()]
    for verb in rng.choices(list(VERBS), weights, k=length):
        script.steps.append(_step(verb, rng))
    script.steps.extend(_ending())
    return script


def _step(verb: str, rng: random.Random) -> Step:
    _, choices = VERBS[verb]
    member = rng.randrange(MEMBERS)
    if verb == "leave" and member == 0 and rng.random() < 0.7:
        member = 1  # who leads after m0, which mostly leads, is chance in Kafka
    return Step(verb, member, tuple(rng.choice(values) for values in choices))


def _ending() -> Iterator[Step]:
    """Everybody goes, and one looks at what is left."""
    for member in range(1, MEMBERS):
        yield Step("leave", member, ("right",))
    yield Step("leave", 0, ("right",))
    yield Step("describe", 0, ("group",))
    yield Step("fetch_offsets", 0, ("all",))
    yield Step("delete_group", 0, ("group",))
    yield Step("list_groups", 0, ("any", "any"))
    yield Step("fetch_offsets", 0, ("all",))
