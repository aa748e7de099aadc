"""The first Arrow batch imports NumPy and PyArrow, and the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.working import WAIT_S, topic_with
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

ARROW = """
import asyncio, sys
from sharegroup import ShareConsumer

async def main():
    turns = 0

    def importing():
        ours = sys.modules.get("sharegroup.client.share.arrow_batches")
        return ours is not None and not hasattr(ours, "answer_rows")

    async def other_work():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += importing()

    async with ShareConsumer(sys.argv[2], group_id=sys.argv[3],
                             bootstrap_servers=sys.argv[1]) as consumer:
        other = asyncio.create_task(other_work())
        async for batch in consumer.arrow_batches():
            print(batch.num_rows)
            break
        other.cancel()
    print(turns > 0)

asyncio.run(main())
"""


def test_importing_pyarrow_does_not_block_the_loop(tmp_path: Path) -> None:
    """NumPy and PyArrow take a second to import: the loop has turns while they come."""
    program = tmp_path / "arrow.py"
    program.write_text(ARROW)
    with SharegroupServer(tmp_path / "data") as server:
        topic, group = asyncio.run(topic_with(server.bootstrap, 1))
        ended = subprocess.run(
            [sys.executable, program, server.bootstrap, topic, group],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\nTrue\n", "")
