"""Settings altered for one broker and for every broker hold after a stop and after a kill."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup import Producer
from sharegroup.client.admin.admin import Admin
from sharegroup.model.errors import MessageTooLarge
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

SETTING = "log.retention.ms"
EVERY_BROKER, OWN_NODE = "", "1"


async def alter(bootstrap: str, name: str, value: str | None, setting: str = SETTING) -> None:
    async with Admin(bootstrap) as admin:
        await admin.alter_configs("broker", name, {setting: value})


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


def test_logs_that_are_opened_again_keep_what_was_altered(tmp_path: Path) -> None:
    """The smaller limit is that of the start: the larger one, altered since, holds for the logs."""
    server = SharegroupServer(tmp_path, "message.max.bytes=1000")
    with server:
        asyncio.run(made(server.bootstrap))
        asyncio.run(alter(server.bootstrap, EVERY_BROKER, "100000", "message.max.bytes"))
        for end in (server.stop, server.kill):
            end()
            server.start()
            asyncio.run(wrote(server.bootstrap, 5_000))
        asyncio.run(alter(server.bootstrap, EVERY_BROKER, "500", "message.max.bytes"))
        server.kill()
        server.start()
        with pytest.raises(MessageTooLarge):
            asyncio.run(wrote(server.bootstrap, 700))


def test_a_start_that_contradicts_what_was_altered_says_so(
    tmp_path: Path,
) -> None:
    altered, limit = "group.share.session.timeout.ms", "group.share.max.session.timeout.ms"
    with SharegroupServer(tmp_path) as server:
        asyncio.run(alter(server.bootstrap, OWN_NODE, "60000", altered))
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(server.data)]
    done = subprocess.run(
        [*command, "-o", f"{limit}=50000", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"Altered were: {altered}=60000" in done.stderr


async def wrote(bootstrap: str, size: int) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("jobs", bytes(size))


async def made(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics("jobs", partitions=1)
