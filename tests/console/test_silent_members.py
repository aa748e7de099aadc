"""A member that was killed is named while the group still waits for it, and what was given up is
not forgotten."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sharegroup import Admin, Producer
from tests.console.members import member, polled
from tests.console.running import Console, console
from tests.servers.process import ServerProcess
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process
HOLDS = """
import asyncio, sys
from sharegroup import ShareConsumer

async def main():
    async with ShareConsumer("jobs", group_id="workers", bootstrap_servers=sys.argv[1],
                             client_id="doomed", acknowledgement_mode="explicit",
                             acquire_mode="record_limit", max_poll_records=1) as one:
        while not await one.poll():
            pass
        print("holds", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics("jobs")
        await admin.alter_configs("group", "workers", {"share.auto.offset.reset": "earliest"})
        for number in range(3):
            await producer.send("jobs", f"{number}")


def until(page: Console, name: str, holds: Callable[[Any], bool], **query: object) -> Any:
    """What the page has at last."""
    while not holds(found := page.json(name, **query)):
        continue
    return found


def test_a_killed_member_is_named_before_its_session_ends(tmp_path: Path) -> None:
    least = "group.share.min.heartbeat.interval.ms=200"
    with SharegroupServer(tmp_path, least, "group.share.heartbeat.interval.ms=200") as server:
        asyncio.run(prepare(server.bootstrap))
        doomed = ServerProcess(
            [sys.executable, "-c", HOLDS, server.bootstrap],
            log_path=tmp_path / "doomed.log",
            environment={"PYTHONPATH": str(SOURCE)},
        )
        doomed.start()
        doomed.wait_until(lambda: "holds" in doomed.output(), timeout_s=60)
        with console(server.bootstrap, tmp_path, "--acts") as page:
            assert page.json("queue", group="workers")["members"][0]["silent_ms"] is None
            doomed.kill()
            queue = until(
                page, "queue", lambda one: one["members"][0]["silent_ms"], group="workers"
            )
            [silent] = queue["members"]
            assert silent["silent_ms"] > 2_000
            assert 0 < silent["session_left_ms"] < 45_000
            assert queue["status"]["text"] == "1 of 1 member silent"
            assert queue["causes"][0].startswith(f"Member {silent['member'][:8]} (doomed at 127.")
            [line] = page.json("queues")["queues"]
            assert line["status"]["text"] == "1 of 1 member silent"
            at = {"topic": "jobs", "partition": 0, "offset": 2, "group": "workers"}
            assert "it may have been killed" in page.json("record", **at)["life"]["next"]


def test_what_was_given_up_without_a_letter_is_shown(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server, console(server.bootstrap, tmp_path) as page:
        asyncio.run(prepare(server.bootstrap))

        async def reject() -> None:
            async with member(server.bootstrap, "jobs", "workers", 1) as one:
                one.reject(*await polled(one))
                await one.commit()
                one.release(*await polled(one))
                await one.commit()
                at = {"topic": "jobs", "partition": 0, "group": "workers"}
                again = await asyncio.to_thread(page.json, "record", **at, offset=1)
                assert again["life"]["deliveries"] == 1
                assert "Its delivery came to nothing" in again["life"]["next"]

        asyncio.run(reject())
        queue = page.json("queue", group="workers")
        [given_up] = queue["given_up"]
        assert (given_up["first"], given_up["last"], given_up["deliveries"]) == (0, 0, 1)
        assert given_up["reason_said"] == "rejected"
        assert any(one.startswith("1 record given up lately") for one in queue["causes"])
