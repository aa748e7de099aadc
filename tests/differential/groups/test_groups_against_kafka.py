"""The same random scripts of consumer groups against Apache Kafka and against us: every field of
every answer must be the same.

`SHAREGROUP_SCRIPTS=500` plays that many; `SHAREGROUP_FIRST_SCRIPT=77` begins at that seed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.differential.differences import declared
from tests.differential.groups.playing import Comparison, Played
from tests.differential.groups.script import random_group_script
from tests.servers.sharegroup_server import SharegroupServer

SCRIPTS = int(os.environ.get("SHAREGROUP_SCRIPTS", "30"))
FIRST = int(os.environ.get("SHAREGROUP_FIRST_SCRIPT", "1"))
AT_ONCE = 8
OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.assignment.interval.ms=0",
    "group.consumer.assignment.interval.ms=0",
)
# Ours assigns with the heartbeat that makes it necessary.
KAFKAS_OPTIONS = (
    *OPTIONS[1:],
    "group.consumer.assignor.offload.enable=false",
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300 + 20 * SCRIPTS)]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), *KAFKAS_OPTIONS) as kafka,
        SharegroupServer(tmp_path_factory.mktemp("ours"), *OPTIONS) as ours,
    ):
        both = Comparison(kafka.port, ours.port, declared())
        for seed in (0, 3):  # internal topics are made
            asyncio.run(both.once(random_group_script(seed)))
        yield both


def test_scripts(comparison: Comparison) -> None:
    async def all_of_them() -> list[Played]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(seed: int) -> Played:
            async with room:
                return await comparison.outcome(random_group_script(seed))

        return await asyncio.gather(*(one(seed) for seed in range(FIRST, FIRST + SCRIPTS)))

    found = asyncio.run(all_of_them())
    different = [one.report for one in found if one.report]
    assert not different, f"{len(different)} of {SCRIPTS} scripts differ\n" + "\n".join(different)
    assert sum(one.compared for one in found) > 0.8 * SCRIPTS, "the two part too early, too often"
