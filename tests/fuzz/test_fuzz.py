"""What reads bytes of others takes any: recorded ones, what was a fault once, and what is made of
them. `make fuzz` looks for more."""

from __future__ import annotations

import pytest

from tests.fuzz.corpus import inputs, recorded
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import TARGETS, attempt, request

MADE = 2_000
"""So many inputs are made for each target."""


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes(target: str) -> None:
    corpus = inputs(target)
    for one in corpus:
        attempt(TARGETS[target], one)
    mutator = Mutator(f"{target} 1", corpus)
    for number in range(MADE):
        data = mutator.next()
        try:
            attempt(TARGETS[target], data)
        except Exception as error:
            error.add_note(f"input {number} of {target}: {data.hex()}")
            raise


def test_what_clients_of_others_have_sent_is_read() -> None:
    frames = recorded()
    assert len({frame[:4] for frame in frames}) > 50, "APIs and versions"
    for frame in frames:
        request(frame)
