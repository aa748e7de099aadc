"""The same random scripts against Apache Kafka and against us: what clients see must be the same.

`SHAREGROUP_SCRIPTS=500` plays that many; `SHAREGROUP_FIRST_SCRIPT=77` begins at that seed. A script
that differs is played again: what only timing made different does not come three times.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.differential.differences import Difference, Seen, compare, declared
from tests.differential.player import Player
from tests.differential.script import Script, random_script
from tests.servers.sharegroup_server import SharegroupServer

SCRIPTS = int(os.environ.get("SHAREGROUP_SCRIPTS", "40"))
FIRST = int(os.environ.get("SHAREGROUP_FIRST_SCRIPT", "1"))
AT_ONCE = 8
ATTEMPTS = 3
OPTIONS = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.min.assignment.interval.ms=0",
    "group.share.assignment.interval.ms=0",
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120 + 10 * SCRIPTS)]

_runs = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Servers:
    """The two that are compared."""

    kafka: KafkaBroker
    ours: SharegroupServer


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), *OPTIONS) as kafka,
        SharegroupServer(tmp_path_factory.mktemp("ours"), *OPTIONS) as ours,
    ):
        asyncio.run(play_both(Servers(kafka, ours), random_script(0)))  # internal topics are made
        yield Servers(kafka, ours)


async def play_both(servers: Servers, script: Script) -> tuple[list[str], list[str]]:
    """What Kafka and what we let clients see."""
    name = f"script-{script.seed}-{next(_runs)}"
    both = (Player(server.port, script, name) for server in (servers.kafka, servers.ours))
    kafka, ours = await asyncio.gather(*(player.play() for player in both))
    return kafka, ours


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one script: the difference that nobody has declared, if any, and the share of its steps
    that were compared."""

    report: str
    compared: float


async def outcome(servers: Servers, seed: int, known: list[Difference]) -> Outcome:
    """Play a script until both agree; what stays different, with the steps that led to it."""
    script = random_script(seed)
    found = Outcome("", 0)
    for _ in range(ATTEMPTS):
        found = compared(*await play_both(servers, script), known)
        if not found.report:
            return found
    return Outcome(f"seed {seed} {script.configs}\n{found.report}", found.compared)


def compared(kafka: list[str], ours: list[str], known: list[Difference]) -> Outcome:
    """The first line that differs without being declared, after those before it."""
    for at, (theirs, mine) in enumerate(zip(kafka, ours, strict=True)):
        seen = compare(theirs, mine, known)
        if seen is Seen.PARTED:
            return Outcome("", at / len(ours))
        if seen is Seen.DIFFERENT:
            before = "\n".join(f"    {line}" for line in ours[:at])
            return Outcome(f"{before}\n  Kafka: {theirs}\n  ours:  {mine}", at / len(ours))
    return Outcome("", 1)


def test_scripts(servers: Servers) -> None:
    known = declared()

    async def all_of_them() -> list[Outcome]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(seed: int) -> Outcome:
            async with room:
                return await outcome(servers, seed, known)

        return await asyncio.gather(*(one(seed) for seed in range(FIRST, FIRST + SCRIPTS)))

    found = asyncio.run(all_of_them())
    different = [one.report for one in found if one.report]
    assert not different, f"{len(different)} of {SCRIPTS} scripts differ\n" + "\n".join(different)
    assert sum(one.compared for one in found) > 0.8 * SCRIPTS, "the two part too early, too often"
