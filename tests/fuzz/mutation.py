"""Bytes that are almost right: the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

NUMBERS: Final = tuple(
    number.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for number in (-1, 0, 1, -(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
)
VARINTS: Final = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\x80" * 5,
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
)


class Mutator:
    """Makes new inputs of old ones.

    Args:
        corpus: at least one.
    """

    def __init__(self, seed: str, corpus: Sequence[bytes]) -> None:
        self._chance = Random(seed)
        self._corpus = corpus

    def next(self) -> bytes:
        """An input of the corpus with up to four changes."""
        chance = self._chance
        data = bytearray(chance.choice(self._corpus))
        for _ in range(chance.randint(1, 4)):
            self._change(data)
        return bytes(data)

    def _change(self, data: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(data) + 1)
        size = chance.choice((1, 2, 4, 16, 100))
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                wrong = chance.choice(chance.choice((NUMBERS, VARINTS)))
                data[at : at + len(wrong)] = wrong
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                other = chance.choice(self._corpus)
                begin = chance.randrange(len(other) + 1)
                data[at : at + size] = other[begin : begin + size]
            case _:
                data[at:at] = chance.randbytes(size)
