"""What a seed kills, and when: after which line in a journal, and how long after it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

PRODUCING = ("sending", "acked")
GROUPS = ("assigned", "revoked", "read", "committing", "committed")
TRANSFERS = ("begun", "wrote", "sent offsets", "ending", "commit", "abort")
RIVALS = ("taking", "took", "begun", "ending", "commit")
MOMENTS = [
    *(("producer", what) for what in PRODUCING),
    *(("reader", what) for what in GROUPS),
    *(("transfer", what) for what in ("assigned", "revoked", *TRANSFERS)),
    *(("rival", what) for what in RIVALS),
]
REBALANCE = ("assigned", "revoked")
"""These need a member that comes or goes."""
DELAY_MS_MAX = 4.0


class Strike(NamedTuple):
    """One kill."""

    kind: str
    """Whose journal is waited for: ``producer``, ``reader``, ``transfer``, ``rival``."""
    what: str
    """The line that is waited for."""
    broker: bool
    """Whether the broker is killed, else who wrote the line."""
    delay_ms: float
    """How long after the line."""


def strikes_of(seed: int, count: int) -> list[Strike]:
    """The strikes of a seed. Seeds in a row go through all moments, for the broker and for the
    others."""
    every = [(kind, what, broker) for kind, what in MOMENTS for broker in (True, False)]
    Random("moments").shuffle(every)
    random = Random(seed)
    chosen = [every[(seed * count + number) % len(every)] for number in range(count)]
    random.shuffle(chosen)
    return [
        Strike(kind, what, broker, random.choice((0, random.uniform(0, DELAY_MS_MAX))))
        for kind, what, broker in chosen
    ]
