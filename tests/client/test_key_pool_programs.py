"""Pools as programs: one is killed, and the next one goes on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.client.test_key_pool import COUNT, Witness, committed, filled
from tests.client.working import fresh
from tests.servers.process import ServerProcess
from tests.servers.running import RunningServer

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("key_pool_program.py")
WAIT_S = 240


def test_after_a_kill_the_next_one_goes_on(group_broker: RunningServer, tmp_path: Path) -> None:
    topic, group = asyncio.run(filled(group_broker)), fresh("group")
    journal = tmp_path / "journal"
    journal.touch()

    def lines() -> list[int]:
        return [int(line) for line in journal.read_text().split()]

    def start(name: str) -> ServerProcess:
        names = (group_broker.bootstrap, topic, group, str(journal))
        program = ServerProcess(
            [sys.executable, str(PROGRAM), *names],
            log_path=tmp_path / f"{name}.log",
            environment={"PYTHONPATH": str(ROOT / "src")},
        )
        program.start()
        return program

    first = start("first")
    first.wait_until(lambda: len(lines()) >= COUNT // 4, timeout_s=WAIT_S)
    first.kill()
    before = len(lines())
    assert before < COUNT
    second = start("second")
    second.wait_until(lambda: len(set(lines())) == COUNT, timeout_s=WAIT_S)
    assert second.stop() == 0  # SIGTERM commits
    handled = lines()
    assert len(handled) < COUNT + before, "the second one has begun anew"
    witness = Witness()
    witness.done = handled
    witness.check_order()
    assert asyncio.run(committed(group_broker, topic, group)) == COUNT
