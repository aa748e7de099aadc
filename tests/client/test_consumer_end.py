"""The end of a consumer whose broker is away."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharegroup import Consumer
from tests.client.test_consumer import filled, read
from tests.client.working import run
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_a_close_that_cannot_commit_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: SharegroupServer) -> None:
        topic = await filled(server, partitions=1)
        one = Consumer(
            topic,
            group_id="left",
            auto_offset_reset="earliest",
            bootstrap_servers=server.bootstrap,
        )
        assert len(await read(one, 5)) == 5
        server.kill()
        with caplog.at_level(logging.WARNING, "sharegroup.client"):
            await one.close(timeout_ms=300)
        assert "could not say good-bye within 300 ms" in caplog.text

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))
