"""SIGKILL to a broker while it cleans: what the table holds then, and what fsck says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.kills.compacting import TOPIC
from tests.kills.journal import Tail, all_lines
from tests.kills.round import ROOT, Worker
from tests.kills.table import rows, wrong
from tests.kills.working import pause
from tests.servers.admin import Admin
from tests.servers.sharegroup_server import SharegroupServer

KILLS = 6
LOOK_S = 0.0005
WAIT_S = 120
DELAY_S = 0.006
"""After the first file of the cleaner; all of it takes some ten milliseconds."""
COMPACTED = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "30000",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "1000",
}


def in_work(folder: Path) -> list[str]:
    """The names of files that the cleaner has not put in their place yet."""
    return [path.name for path in folder.iterdir() if path.suffix in (".cleaned", ".swap")]


def wait_for_cleaner(folder: Path) -> None:
    """Until it writes a segment."""
    deadline = time.monotonic() + WAIT_S
    while not in_work(folder):
        assert time.monotonic() < deadline, "the cleaner does nothing"
        pause(LOOK_S)


def fsck(data: Path) -> dict[str, object]:
    """What `sharegroup fsck` finds; a finding that is more than information fails."""
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup", "fsck", "--data", str(data), "--json"],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def play(folder: Path, seed: int, kills: int) -> tuple[SharegroupServer, list[list[str]]]:
    """Writers and kills; the broker at the end, and the cleaner's files at each kill."""
    random = Random(seed)
    server = SharegroupServer(folder / "broker", "log.cleaner.backoff.ms=20")
    server.start()
    Admin(server.bootstrap).create_topic(TOPIC, **COMPACTED)
    workers = [
        Worker(folder, server.bootstrap, who, "compacting", who)
        for who in ("plain", "transactions")
    ]
    tail, left = Tail(folder), []
    table = server.data / f"{TOPIC}-0"
    try:
        for worker in workers:
            worker.start()
        for _ in range(kills):
            wait_for_cleaner(table)
            pause(random.uniform(0, DELAY_S))
            server.kill()
            left.append(in_work(table))
            fsck(server.data)
            server.start()
            deadline = time.monotonic() + WAIT_S
            while not any(line.what == "acked" for line in tail.lines()):
                assert time.monotonic() < deadline, "nothing is confirmed any more"
                pause(LOOK_S)
        assert [worker.stop(WAIT_S) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            if worker.ended is None:
                worker.strike()
    return server, left


@pytest.mark.process
@pytest.mark.timeout(900)
def test_kills_while_cleaning_lose_no_value(tmp_path: Path) -> None:
    server, left = play(tmp_path, seed=1, kills=KILLS)
    try:
        assert wrong(all_lines(tmp_path), rows(server.bootstrap)) == []
        assert any(left), "no kill met the cleaner at work"
    finally:
        server.kill()
    fsck(server.data)
