"""One script on both servers, and the shortest script that still differs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest

from tests.differential.differences import Difference, Seen
from tests.differential.groups.classic import ClassicSteps
from tests.differential.groups.consumer import ConsumerSteps
from tests.differential.groups.offsets import OffsetSteps
from tests.differential.groups.script import GroupScript
from tests.differential.groups.transactions import TransactionSteps

ATTEMPTS = 3
SHRINKS = 60
"""How often a script that differs is played to make it shorter."""

_runs = itertools.count(1)


class Everything(ClassicSteps, ConsumerSteps, OffsetSteps, TransactionSteps):
    """Knows every step."""


@dataclass(frozen=True, slots=True)
class Played:
    """`at` is the first step that differs, or None."""

    report: str
    at: int | None
    compared: float


def compare(kafka: str, ours: str, known: Sequence[Difference]) -> Seen:
    """Whether the answers of one step differ, field by field, and whether that is declared. After a
    difference that parts the two the other fields are not looked at."""
    step, _, theirs = kafka.partition(" -> ")
    _, _, mine = ours.partition(" -> ")
    one, other = theirs.split(", "), mine.split(", ")
    if one == other:
        return Seen.SAME
    seen = Seen.SAME
    for tag, first, last, start, end in SequenceMatcher(None, one, other, False).get_opcodes():
        if tag == "equal":
            continue
        for pair in zip_longest(one[first:last], other[start:end], fillvalue="nothing"):
            texts = [f"{step} {text}" for text in pair]
            why = next((row for row in known if row.explains(texts[0], texts[1])), None)
            if why is None:
                return Seen.DIFFERENT
            if why.parts:
                return Seen.PARTED
            seen = Seen.DECLARED
    return seen


def compared(kafka: Sequence[str], ours: Sequence[str], known: Sequence[Difference]) -> Played:
    """The first line that differs without being declared, after those before it."""
    for at, (theirs, mine) in enumerate(zip(kafka, ours, strict=True)):
        seen = compare(theirs, mine, known)
        if seen is Seen.PARTED:
            return Played("", None, at / len(ours))
        if seen is Seen.DIFFERENT:
            before = "\n".join(f"    {line}" for line in ours[:at])
            return Played(f"{before}\n  Kafka: {theirs}\n  ours:  {mine}", at, at / len(ours))
    return Played("", None, 1)


class Comparison:
    """Kafka and us, by their ports."""

    def __init__(self, kafka: int, ours: int, known: Sequence[Difference]) -> None:
        self._ports = (kafka, ours)
        self._known = known

    async def once(self, script: GroupScript) -> Played:
        """Play on both."""
        name = f"group-{script.seed}-{next(_runs)}"
        kafka, ours = await asyncio.gather(
            *(Everything(port, script, name).play() for port in self._ports)
        )
        return compared(kafka, ours, self._known)

    async def outcome(self, script: GroupScript) -> Played:
        """Play until both agree: what only timing made different does not come every time. What
        stays different is made shorter."""
        played = await self._often(script)
        if played.at is None:
            return played
        short, why = await self._shrunk(script, played)
        return replace(why, report=f"seed {script.seed} {short.versions}\n{why.report}")

    async def _often(self, script: GroupScript) -> Played:
        played = await self.once(script)
        for _ in range(ATTEMPTS - 1):
            if played.at is None:
                break
            played = await self.once(script)
        return played

    async def _shrunk(self, script: GroupScript, why: Played) -> tuple[GroupScript, Played]:
        """Leave out steps, many at a time at first, as long as something differs."""
        assert why.at is not None
        steps = script.steps[: why.at + 1]
        size, plays = max(1, len(steps) // 2), 0
        while size and plays < SHRINKS:
            at = 0
            while at < len(steps) and plays < SHRINKS:
                fewer = replace(script, steps=steps[:at] + steps[at + size :])
                plays += 1
                played = await self._often(fewer) if fewer.steps else Played("", None, 1)
                if played.at is None:
                    at += size
                else:
                    steps, why = fewer.steps[: played.at + 1], played
            size //= 2
        return replace(script, steps=steps), why
