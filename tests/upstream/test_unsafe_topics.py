"""Topics that can lose what was confirmed are named, once, when a broker begins."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from sharegroup import Admin
from sharegroup.model.errors import TopicAlreadyExists
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
OURS = "__sharegroup_fleet_"
SETTINGS = f"{OURS}settings"
SHARED = SETTINGS, f"{OURS}security"
REQUESTS = f"{OURS}requests"
UNCLEAN = "unclean.leader.election.enable"
KEPT = "cleanup.policy", "retention.ms", "retention.bytes", UNCLEAN


@pytest.mark.kafka
def test_topics_that_can_lose_records_are_named(cluster: RunningServer, tmp_path: Path) -> None:
    async def prepare() -> None:
        async with Admin(cluster.bootstrap) as theirs:
            await theirs.create_topics("alone")
            with suppress(TopicAlreadyExists):
                await theirs.create_topics(SETTINGS)
            settings = {UNCLEAN: "true"}
            await theirs.alter_configs("topic", SETTINGS, {"cleanup.policy": "delete", **settings})
            await theirs.create_topics("unclean", configs=settings)

    async def state_topics() -> dict[str, tuple[str | None, ...]]:
        async with Admin(cluster.bootstrap) as theirs:
            names = [one.name for one in await theirs.list_topics() if one.name.startswith(OURS)]
            configs = {name: await theirs.describe_configs("topic", name) for name in names}
            return {name: tuple(own[one].value for one in KEPT) for name, own in configs.items()}

    asyncio.run(prepare())
    (tmp_path / "node").mkdir()
    with SharegroupServer(tmp_path / "node", arguments=["--upstream", cluster.bootstrap]) as node:
        [line] = [one for one in node.output().splitlines() if "on one broker alone" in one]
        assert "alone" in line.partition("lost with it: ")[2].split(", ")
        [line] = [one for one in node.output().splitlines() if f"{UNCLEAN}=true" in one]
        assert " 1 of " in line
        assert line.endswith("given to other records: unclean")
        # What the brokers keep there is kept, also where somebody made the topic by himself.
        lines = [one for one in node.output().splitlines() if "had other settings" in one]
        assert [f"{SETTINGS} had" in line for line in lines] == [True, True]
        assert f"it has {UNCLEAN}=false now" in lines[1]
        kept = asyncio.run(state_topics())
        assert len(kept) >= 5
        assert {own[-1] for own in kept.values()} == {"false"}
        assert {kept.pop(name)[0] for name in SHARED} == {"compact"}
        kept.pop(REQUESTS)
        assert {own[:-1] for own in kept.values()} == {("delete", "-1", "-1")}
