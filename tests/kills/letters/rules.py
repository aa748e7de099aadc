"""What must hold after a round with dead letters. Each rule yields a sentence for what is wrong.

* each record that is rejected has a letter: the group is through, so without one it is lost;
* no record has one whose accept was confirmed;
* a letter has its record's key and value, and says the reason that was given. Only some clients
  can give one, and only our broker keeps it.

A record may have several letters, since a broker that is killed may have written one that it does
not know of. They are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.kills.journal import Line
from tests.kills.letters.jobs import GROUP, TOPIC, is_accepted, number_of, reason_of, value_of

SHOWN = 3

Place = tuple[int, int]
"""Partition and offset in the input."""


class Letter(NamedTuple):
    """A record of the dead-letter topic: what it says of its origin, and its copy."""

    topic: str
    group: str
    place: Place
    message: str | None
    value: bytes | None


class Verdict(NamedTuple):
    """What is wrong, and how many letters too many there are."""

    wrong: list[str]
    letters: int
    lost: int
    repeated: int


def judge(
    lines: Iterable[Line],
    numbers: Mapping[Place, int],
    letters: Sequence[Letter],
    *,
    keeps_reasons: bool,
) -> Verdict:
    """Judge a round.

    Args:
        lines: of the members' journals, by time.
        numbers: of each record of the input.
        keeps_reasons: whether the broker does.
    """
    accepted, with_reason = _told(lines)
    count = Counter(letter.place for letter in letters)
    lost = [at for at, number in numbers.items() if not is_accepted(number) and at not in count]
    wrong = [
        *_shown("rejected without a letter", (f"{p}-{offset}" for p, offset in sorted(lost))),
        *_shown("accepted, and a dead letter", (str(at) for at in sorted(accepted & count.keys()))),
        *_shown("letters that are wrong", _wrong_letters(numbers, letters)),
    ]
    if keeps_reasons:
        silent = {letter.place for letter in letters if letter.message is None} & with_reason
        wrong += _shown("reasons that are lost", (str(at) for at in sorted(silent)))
    return Verdict(wrong, len(letters), len(lost), len(letters) - len(count))


def _told(lines: Iterable[Line]) -> tuple[set[Place], set[Place]]:
    """The places whose accept was confirmed, and those that only clients that say a reason had."""
    accepted: set[Place] = set()
    with_reason: set[Place] = set()
    without: set[Place] = set()
    asked: dict[str, list[tuple[int, int, int]]] = {}
    for line in lines:
        if line.what == "answering":
            asked[line.who] = line.more["records"]
            mine = {(p, offset) for p, offset, _ in line.more["records"]}
            (with_reason if line.who.startswith("ours") else without).update(mine)
        elif line.what == "answered":
            done = line.more["done"]
            accepted |= {
                (p, offset) for p, offset, n in asked[line.who] if p in done and is_accepted(n)
            }
    return accepted, with_reason - without


def _wrong_letters(numbers: Mapping[Place, int], letters: Iterable[Letter]) -> Iterator[str]:
    for letter in letters:
        number = numbers.get(letter.place)
        if number is None or (letter.topic, letter.group) != (TOPIC, GROUP):
            yield f"{letter} is about no record"
        elif letter.value != value_of(number):
            yield f"{letter.place} has another value: {letter.value!r}"
        elif letter.message is not None and letter.message != reason_of(number):
            yield f"{letter.place} says {letter.message!r}"


def _shown(what: str, found: Iterable[str]) -> Iterator[str]:
    """One sentence with the number, and the first ones."""
    every = list(found)
    if every:
        yield f"{len(every)} {what}: {', '.join(every[:SHOWN])}"


def numbers_of(records: Iterable[tuple[int, int, bytes]]) -> dict[Place, int]:
    """The numbers of the input. ``records``: partition, offset, value."""
    return {(partition, offset): number_of(value) for partition, offset, value in records}
