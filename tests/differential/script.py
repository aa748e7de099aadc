"""Random scripts of what clients do, each from a seed.

A step says who does what, and holds a seed of its own for what only the player can choose: which of
the records that a member holds are accepted, released and so on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MEMBERS = 3
EVERYTHING = 10_000


class Step(NamedTuple):
    """`verb` is a method of the player; `values` are its arguments after the member."""

    verb: str
    member: int = 0
    values: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        return f"{self.verb}({', '.join(map(str, (self.member, *self.values)))})"


@dataclass(frozen=True, slots=True)
class Script:
    """What is set up, and the steps."""

    seed: int
    partitions: int
    configs: dict[str, str]
    steps: list[Step] = field(default_factory=list)


# verb -> how often it comes; the rest of a script is polls and acknowledgements
WEIGHTS = {
    "produce": 12,
    "poll": 30,
    "acknowledge": 34,
    "bad_acknowledge": 8,
    "bad_fetch": 5,
    "wrong_epoch": 5,
    "wrong_heartbeat": 3,
    "close_session": 4,
    "disconnect": 2,
    "leave": 3,
    "join": 4,
    "describe_group": 4,
    "describe_offsets": 6,
    "delete_records": 2,
    "alter_offsets": 2,
    "configure": 3,
}


def random_script(seed: int, length: int = 40) -> Script:
    """The script of a seed: the same one for ever."""
    rng = random.Random(seed)
    partitions = rng.choice((1, 1, 1, 2, 3))
    configs = {"share.auto.offset.reset": "earliest"}
    if rng.random() < 0.5:
        configs["share.delivery.count.limit"] = str(rng.choice((2, 3, 4, 10)))
    script = Script(seed, partitions, configs)
    script.steps.append(Step("produce", 0, (0, 5, 1)))
    script.steps.append(Step("join", 0))
    if rng.random() < 0.25:
        script.steps.append(Step("leave", 0))
        script.steps.append(Step("alter_offsets", 0, (0, rng.randrange(1 << 30))))
        script.steps.append(Step("describe_offsets"))
        script.steps.append(Step("join", 0))
    script.steps.append(Step("poll", 0, _limits(rng, partitions)))
    script.steps.extend(_steps(rng, partitions, length))
    if rng.random() < 0.15:
        script.steps.append(Step("expire", rng.randrange(MEMBERS)))
    script.steps.extend(_ending(rng))
    return script


def _steps(rng: random.Random, partitions: int, length: int) -> Iterator[Step]:
    verbs, weights = list(WEIGHTS), list(WEIGHTS.values())
    for verb in rng.choices(verbs, weights, k=length):
        member, seed = rng.randrange(MEMBERS), rng.randrange(1 << 30)
        match verb:
            case "produce":
                yield Step(verb, 0, (rng.randrange(partitions), rng.choice((1, 3, 10, 40)), seed))
            case "poll":
                yield Step(verb, member, _limits(rng, partitions))
            case "acknowledge":
                way = rng.choice(("acknowledge", "acknowledge", "fetch"))
                yield Step(verb, member, (way, seed))
            case "bad_acknowledge" | "bad_fetch" | "wrong_epoch" | "wrong_heartbeat" | "configure":
                yield Step(verb, member, (seed,))
            case "delete_records" | "alter_offsets":
                yield Step(verb, 0, (rng.randrange(partitions), seed))
            case _:
                yield Step(verb, member)


def _limits(rng: random.Random, partitions: int) -> tuple[int, int, int]:
    """Records at most, batch size, acquire mode.

    With several partitions a poll takes everything: which of them comes first turns with the epoch
    of the session, and so with the number of fetches that a poll has needed.
    """
    if partitions > 1:
        return EVERYTHING, rng.choice((1, 7, 500)), 0
    records = rng.choice((1, 2, 5, 20, EVERYTHING))
    # With a limit mostly by record_limit: a redelivery by batch_optimized is a declared difference.
    mode = rng.choice((0, 1) if records == EVERYTHING else (0, 1, 1, 1, 1, 1))
    return records, rng.choice((1, 7, 500)), mode


def _ending(rng: random.Random) -> Iterator[Step]:
    """Everybody goes, then one member looks at what is left."""
    for member in range(MEMBERS):
        yield Step("leave", member)
    yield Step("describe_group")
    yield Step("describe_offsets")
    yield Step("join", 0)
    yield Step("poll", 0, (EVERYTHING, 500, 0))
    yield Step("acknowledge", 0, ("acknowledge", rng.randrange(1 << 30)))
    yield Step("describe_offsets")
    yield Step("leave", 0)
    if rng.random() < 0.3:
        yield Step("delete_offsets", 0)
        yield Step("describe_offsets")
    if rng.random() < 0.3:
        yield Step("delete_group")
        yield Step("describe_group")
        yield Step("describe_offsets")
