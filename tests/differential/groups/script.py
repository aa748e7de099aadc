"""Random scripts of what members of consumer groups, producers and administrators do, each from a
seed.

A step's values say in words what is asked, and what is wrong with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.differential.groups.vocabulary import (
    SUBJECTS,
    TRANSACTION_VERSIONS,
    TURNS,
    VERSIONS,
    Choices,
)
from tests.differential.script import Step

MEMBERS = 4
"""m0 and m1 are dynamic members; m2 and m3 share an instance id."""


@dataclass(frozen=True, slots=True)
class GroupScript:
    """The versions that are spoken, and the steps."""

    seed: int
    versions: dict[str, int]
    steps: list[Step] = field(default_factory=list)


def random_group_script(seed: int, length: int = 35) -> GroupScript:
    """The script of a seed: the same one for ever."""
    rng = random.Random(seed)
    subject = TURNS[seed % len(TURNS)]
    if subject == "both protocols" and rng.random() < 0.3:
        subject = "everything"
    versions = {api: rng.choice(known) for api, known in VERSIONS.items()}
    script = GroupScript(seed, versions | rng.choice(TRANSACTION_VERSIONS))
    verbs = SUBJECTS[subject]
    script.steps.extend(_beginning(subject, rng))
    weights = [weight for weight, _ in verbs.values()]
    for verb in rng.choices(list(verbs), weights, k=length):
        script.steps.append(_step(verb, verbs[verb][1], rng))
    script.steps.extend(_ending(subject))
    return script


def _beginning(subject: str, rng: random.Random) -> Iterator[Step]:
    """Mostly somebody is there already."""
    if rng.random() < 0.2:
        return
    if subject == "classic":
        yield Step("join", 0, ("own", "range", "topic", "consumer", "long"))
        yield Step("settle")
    elif subject == "migration":
        for member in (0, 1):
            yield Step("join", member, ("own", "range", "topic", "consumer", "long"))
        yield Step("settle", 0, ("real",))
    elif subject == "consumer":
        yield Step("cg_join", 0, ("topic", "any", "right"))
        yield Step("cg_settle")
    elif subject == "transactions":
        yield Step("txn_init", 0, ("new",))
        yield Step("txn_init", 2, ("new",))


def _step(verb: str, choices: Choices, rng: random.Random) -> Step:
    member = rng.randrange(MEMBERS)
    if verb == "leave" and member == 0 and rng.random() < 0.7:
        member = 1  # who leads after m0, which mostly leads, is chance in Kafka
    if verb.startswith("txn") and rng.random() < 0.6:
        member = member // 2 * 2  # who has the id is fenced seldom
    return Step(verb, member, tuple(rng.choice(values) for values in choices))


def _ending(subject: str) -> Iterator[Step]:
    """Everybody goes, and one looks at what is left."""
    if subject != "consumer":
        for member in range(1, MEMBERS):
            yield Step("leave", member, ("right",))
        yield Step("leave", 0, ("right",))
    if subject not in ("classic", "transactions"):
        for member in range(MEMBERS):
            yield Step("cg_leave", member, ("for good",))
        yield Step("cg_describe", 0, ("group",))
    if subject in ("transactions", "everything"):
        for member in (0, 2):
            yield Step("txn_init", member, ("new",))
        for partition in ("0", "1"):
            yield Step("read", 0, (partition, "committed", "0"))
    yield Step("describe", 0, ("group",))
    yield Step("fetch_offsets", 0, ("all",))
    yield Step("delete_group", 0, ("group",))
    yield Step("list_groups", 0, ("any", "any"))
    yield Step("fetch_offsets", 0, ("all",))
