"""Which answers a member gives: sound ones of every shape, and bad ones."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.differential.wire_member import Batch

Held = dict[int, dict[int, int]]

SKIP, GAP, ACCEPT, RELEASE, REJECT, RENEW = -1, 0, 1, 2, 3, 4
RENEWING = 0.2


@dataclass(frozen=True, slots=True)
class Choice:
    """Acknowledgement batches by partition, and whether they renew."""

    batches: dict[int, list[Batch]]
    renew: bool

    def settle(self, held: Held, partition: int) -> None:
        """Forget what this has answered; what is renewed stays."""
        for first, last, types in self.batches.get(partition, []):
            for offset in range(first, last + 1):
                kind = types[0] if len(types) == 1 else types[offset - first]
                if kind != RENEW:
                    held[partition].pop(offset, None)


def chosen(held: Held, rng: random.Random) -> Choice:
    """Sound answers to some of what is held."""
    renew = rng.random() < RENEWING
    kinds = [SKIP, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP] + [RENEW] * (3 * renew)
    batches = {}
    for partition, offsets in sorted(held.items()):
        own = list(_batches(sorted(offsets), kinds, rng))
        if own:
            batches[partition] = own
    return Choice(batches, renew)


def _batches(offsets: list[int], kinds: list[int], rng: random.Random) -> list[Batch]:
    found: list[Batch] = []
    at = 0
    while at < len(offsets):
        end = at + 1
        length = rng.choice((1, 2, 5, 100))
        while end < len(offsets) and offsets[end] == offsets[end - 1] + 1 and end - at < length:
            end += 1
        run, at = offsets[at:end], end
        if rng.random() < 0.3:
            types = [rng.choice([kind for kind in kinds if kind != SKIP]) for _ in run]
            found.append((run[0], run[-1], types))
        elif (kind := rng.choice(kinds)) != SKIP:
            found.append((run[0], run[-1], [kind]))
    return found


def bad(held: Held, ends: list[int], rng: random.Random) -> tuple[str, dict[int, list[Batch]]]:
    """A kind of mistake, and batches that make it."""
    partition = rng.randrange(len(ends))
    mine = sorted(held[partition])
    at = rng.choice(mine) if mine else rng.randrange(ends[partition] + 1)
    mistakes: dict[str, list[Batch]] = {
        "beyond the end": [(ends[partition] + 5, ends[partition] + 9, [ACCEPT])],
        "backwards": [(at, at - 1, [ACCEPT])],
        "unsorted": [(at + 1, at + 1, [ACCEPT]), (at, at, [ACCEPT])],
        "overlapping": [(at, at + 2, [ACCEPT]), (at + 1, at + 1, [ACCEPT])],
        "unknown type": [(at, at, [7])],
        "no types": [(at, at, [])],
        "types of another length": [(at, at + 2, [ACCEPT, ACCEPT])],
        "renewing without saying so": [(at, at, [RENEW])],
        "a sound one and one beyond": [
            (at, at, [ACCEPT]),
            (ends[partition] + 5, ends[partition] + 5, [ACCEPT]),
        ],
    }
    if not mine:
        del mistakes["a sound one and one beyond"]  # Kafka names the first mistake, we the gravest
    kind = rng.choice(list(mistakes))
    return kind, {partition: mistakes[kind]}
