"""What a user sees on stderr who has set up no logging: one line for each thing to look after."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from sharegroup.client import Admin
from tests.client.working import WAIT_S, produce
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

WORKER = """
import asyncio, sys
from sharegroup import ShareConsumer

async def main():
    async with ShareConsumer("late", group_id="workers", auto_offset_reset="earliest",
                             bootstrap_servers=sys.argv[1]) as consumer:
        print("ready", flush=True)
        async for record in consumer:
            print("record", record.offset, flush=True)
            if record.offset == 1:
                await consumer.commit()
                break

asyncio.run(main())
"""

STUBBORN = """
import asyncio, sys
from sharegroup import ShareConsumer

async def main():
    consumer = ShareConsumer("late", group_id="stubborn", auto_offset_reset="yesterday",
                             bootstrap_servers=sys.argv[1])
    for _ in range(3):
        try:
            await consumer.poll()
        except Exception as error:
            print(type(error).__name__)
    await consumer.close()

asyncio.run(main())
"""


class Said:
    """The lines that a program writes to one of its streams, as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,))
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._more:
                    self.lines.append(line.rstrip())
                    self._more.notify_all()

    def wait_for(self, text: str) -> None:
        def there() -> bool:
            return any(text in line for line in self.lines)

        with self._more:
            assert self._more.wait_for(there, WAIT_S), (text, self.lines)

    def end(self) -> list[str]:
        self._thread.join()
        return self.lines


def test_missing_topics_and_broker_outages_are_logged_once(tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text(WORKER)
    with SharegroupServer(tmp_path / "data", "auto.create.topics.enable=false") as server:
        worker = subprocess.Popen(
            [sys.executable, program, server.bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        assert worker.stderr is not None
        out, err = Said(worker.stdout), Said(worker.stderr)
        out.wait_for("ready")
        err.wait_for("there is no topic 'late'")
        asyncio.run(create(server.bootstrap, "late"))
        asyncio.run(produce(server.bootstrap, "late", 1))
        out.wait_for("record 0")
        server.kill()
        err.wait_for("is gone")
        server.start()
        err.wait_for("is back")
        asyncio.run(produce(server.bootstrap, "late", 1))
        assert worker.wait(WAIT_S) == 0
        out.end()
    missing, there, gone, back = err.end()
    assert missing == (
        "there is no topic 'late': waiting until there is; create it (`sharegroup topics create "
        "late`) or subscribe to another name"
    )
    assert there == "there is a topic 'late' now"
    assert gone.startswith(f"the broker at {server.bootstrap} is gone (")
    assert gone.endswith("check that it runs and can be reached from here")
    assert back == f"the broker at {server.bootstrap} is back"


async def create(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(topic)


def test_a_refused_group_setting_is_logged(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)
    with SharegroupServer(tmp_path / "data") as server:
        ended = subprocess.run(
            [sys.executable, program, server.bootstrap],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "InvalidConfig\n" * 3)
    [line] = ended.stderr.splitlines()
    assert line.startswith("auto_offset_reset='yesterday' cannot be set for the group 'stubborn' (")
    assert line.endswith("let somebody who may set the group's share.auto.offset.reset")


FORGED = "late\n2026-01-01 00:00:00,000 INFO \x1b[2Jall is well"
SAYING = """
import logging, sharegroup.client, sharegroup.spark
logging.basicConfig(format="%(message)s")
for name in ("client", "pool", "worker", "spark"):
    logging.getLogger(f"sharegroup.{name}").warning("the group %s is gone", sys.argv[1])
"""


def test_names_forge_no_line_in_the_log_of_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys{SAYING}", FORGED],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    lines = done.stderr.split("\n")[:-1]
    assert len(lines) == 4
    assert all(line.isprintable() and line.startswith("the group late\\n2026") for line in lines)
