"""Topics that can lose what was confirmed are named, once, when a broker begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


@pytest.mark.kafka
def test_topics_that_can_lose_records_are_named(cluster: RunningServer, tmp_path: Path) -> None:
    async def prepare() -> None:
        async with Admin(cluster.bootstrap) as theirs:
            await theirs.create_topics("alone")
            settings = {"unclean.leader.election.enable": "true"}
            await theirs.create_topics("unclean", configs=settings)

    asyncio.run(prepare())
    (tmp_path / "node").mkdir()
    with SharegroupServer(tmp_path / "node", arguments=["--upstream", cluster.bootstrap]) as node:
        [line] = [one for one in node.output().splitlines() if "on one broker alone" in one]
        assert {"alone", "unclean"} <= {*line.partition("lost with it: ")[2].split(", ")}
        [line] = [one for one in node.output().splitlines() if "unclean.leader" in one]
        assert " 1 of " in line
        assert line.endswith("given to other records: unclean")
