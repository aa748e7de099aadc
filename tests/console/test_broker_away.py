"""The console in Debian's Chromium while its broker is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Admin
from sharegroup.model.ids import TopicPartition
from tests.console.browser import browser, there_is_one, wait_for
from tests.console.running import console, patience
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not there_is_one(), reason="no chromium and chromium-driver here"),
]

ROWS = "document.querySelectorAll('#queues tbody tr').length"
LIVE = "document.querySelector('#live').innerText"
ERROR = "document.querySelector('[role=alert]')"


def test_the_queues_are_followed_again_after_the_broker_was_away(tmp_path: Path) -> None:
    """An error is shown beside the queues, with the time at which they were seen."""
    soon = ("--command-config", patience(tmp_path))
    with (
        SharegroupServer(tmp_path) as server,
        console(server.bootstrap, tmp_path, *soon) as page,
        browser(1000, 800) as window,
    ):
        asyncio.run(make(server.bootstrap, "one"))
        window.get(f"http://127.0.0.1:{page.port}/")
        wait_for(window, f"return {ROWS} === 1 && {LIVE} === 'live'")
        server.kill()
        wait_for(window, f"return {ERROR} !== null")
        assert window.execute_script(f"return {ROWS}") == 1
        said = window.execute_script(f"return {LIVE}")
        assert said.startswith("the last look failed, looking again … The page is as of"), said
        server.start()
        wait_for(window, f"return {LIVE} === 'live'")
        assert window.execute_script(f"return {ERROR}") is None
        asyncio.run(make(server.bootstrap, "other"))
        wait_for(window, f"return {ROWS} === 2")
        assert window.get_log("browser") == []


async def make(bootstrap: str, group: str) -> None:
    """A group with a topic of its own."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(f"jobs.{group}")
        await admin.alter_share_group_offsets(group, {TopicPartition(f"jobs.{group}", 0): 0})
