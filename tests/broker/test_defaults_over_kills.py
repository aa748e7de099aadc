"""Settings altered for one broker and for every broker hold after a stop and after a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.client.admin.admin import Admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

SETTING = "log.retention.ms"
EVERY_BROKER, OWN_NODE = "", "1"


async def alter(bootstrap: str, name: str, value: str | None) -> None:
    async with Admin(bootstrap) as admin:
        await admin.alter_configs("broker", name, {SETTING: value})


async def found(bootstrap: str) -> tuple[str | None, dict[str, str | None]]:
    """What holds for a topic, and the defaults of every broker."""
    async with Admin(bootstrap) as admin:
        topic = await admin.describe_configs("topic", "jobs")
        default = await admin.describe_configs("broker", EVERY_BROKER)
        shown = {name: setting.value for name, setting in default.items()}
        return topic["retention.ms"].value, shown


def test_both_hold_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    server = SharegroupServer(tmp_path, f"{SETTING}=60000")
    with server:
        asyncio.run(made(server.bootstrap))
        asyncio.run(alter(server.bootstrap, EVERY_BROKER, "70000"))
        server.kill()
        server.start()
        assert asyncio.run(found(server.bootstrap)) == ("70000", {SETTING: "70000"})
        asyncio.run(alter(server.bootstrap, OWN_NODE, "80000"))
        for end in (server.stop, server.kill):
            end()
            server.start()
            assert asyncio.run(found(server.bootstrap)) == ("80000", {SETTING: "70000"})
        asyncio.run(alter(server.bootstrap, OWN_NODE, None))
        server.kill()
        server.start()
        assert asyncio.run(found(server.bootstrap)) == ("70000", {SETTING: "70000"})
        asyncio.run(alter(server.bootstrap, EVERY_BROKER, None))
        server.kill()
        server.start()
        assert asyncio.run(found(server.bootstrap)) == ("60000", {})


async def made(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics("jobs", partitions=1)
