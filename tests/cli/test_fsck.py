"""``sharegroup fsck`` as a user runs it: a fresh program, over folders of a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Commands, Finished
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process
SECONDS = 240
RECORDS = 400


def fsck(folder: Path, *options: str) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup", "fsck", "--data", str(folder), *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200"},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Finished(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


def lines(count: int = RECORDS) -> str:
    return "".join(f"record {number}\n" for number in range(count))


def killed(folder: Path) -> SharegroupServer:
    """A broker with records, an accepting group and a sudden end."""
    server = SharegroupServer(folder)
    server.start()
    commands = Commands(server.bootstrap)
    commands.given("topics", "create", "jobs", "--partitions", "1")
    commands.given("groups", "set", "workers", "share.auto.offset.reset=earliest")
    for _ in range(3):
        commands.given("produce", "jobs", stdin=lines(RECORDS // 4))
    commands.ok("consume", "jobs", "-g", "workers", "-n", "10")
    server.kill()
    return server


def damage(server: SharegroupServer, at: int) -> Path:
    file = server.data / "jobs-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(data)
    return file


def test_a_folder_after_a_kill_is_sound_and_not_changed(tmp_path: Path) -> None:
    server = killed(tmp_path)
    before = tree(server.data)
    done = fsck(server.data)
    assert done.status == 0, done
    assert done.stdout.splitlines()[-1].endswith(": nothing is wrong")
    assert tree(server.data) == before
    found = fsck(server.data, "--json")
    assert found.status == 0
    assert (found.json["sound"], found.json["version"]) == (True, 1)
    assert {each["severity"] for each in found.json["findings"]} == {"info"}
    assert fsck(server.data, "--repair").status == 0
    assert tree(server.data) == before


def test_a_folder_in_use_is_not_checked_and_has_its_own_status(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        before = tree(server.data)
        for options in ((), ("--repair",), ("--json",)):
            done = fsck(server.data, *options)
            assert (done.status, done.stdout) == (3, "")
            (said,) = done.stderr.splitlines()
            assert "is in use by another process" in said
        assert tree(server.data) == before


def test_damage_is_reported_repaired_and_skipped(tmp_path: Path) -> None:
    server = killed(tmp_path)
    damage(server, 100)
    done = fsck(server.data)
    assert done.status == 1
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("error")]
    assert "jobs-0/00000000000000000000.log: is damaged from byte 0 to " in line
    assert "offsets 0 to 99 cannot be read" in line
    assert "workers: 10 already passed" in line
    assert "--repair" in line
    found = fsck(server.data, "--json")
    assert found.status == 1
    (finding,) = [each for each in found.json["findings"] if each["severity"] == "error"]
    assert (finding["topic"], finding["partition"]) == ("jobs", 0)
    assert (finding["first_offset"], finding["last_offset"]) == (0, 99)
    assert finding["groups"][0]["group"] == "workers"
    assert found.json["lost_records"] == finding["records"] == 100
    assert fsck(server.data, "--repair").status == 0
    again = fsck(server.data)
    assert again.status == 0
    assert [each for each in again.stdout.splitlines() if each.startswith("known")]
    assert again.stdout.splitlines()[-1].endswith(": 100 records lost")
    with server:
        commands = Commands(server.bootstrap)
        read = commands.ok("consume", "jobs", "-g", "workers", "--json", "-n", "200")
        assert [record["offset"] for record in read.json_lines] == list(range(100, 300))


def test_a_missing_catalog_is_refused_by_serve_and_rebuilt_by_repair(tmp_path: Path) -> None:
    server = killed(tmp_path)
    (server.data / "catalog.json").unlink()
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(server.data)]
    refused = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )
    assert refused.returncode == 2
    assert f"`sharegroup fsck --data {server.data} --repair`" in refused.stderr
    assert fsck(server.data).status == 1
    done = fsck(server.data, "--repair")
    assert done.status == 0, done
    assert "jobs (1)" in done.stdout
    with server:
        commands = Commands(server.bootstrap)
        groups = commands.ok("groups", "list", "--json").json
        assert "workers" in str(groups)
        described = commands.ok("topics", "describe", "jobs", "--json").stdout
        assert "300" in described


def test_other_folders_and_wrong_usage_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        done = fsck(folder)
        assert (done.status, done.stdout) == (3, "")
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert fsck(tmp_path, "--unknown").status == 2


def test_a_progress_bar_is_shown_on_a_terminal(tmp_path: Path) -> None:
    server = killed(tmp_path)
    reader, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sharegroup", "fsck", "--data", str(server.data), "--json"],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"},
            check=False,
        )
        shown = os.read(reader, 1 << 16)
    finally:
        os.close(terminal)
        os.close(reader)
    assert done.returncode == 0
    assert Finished(status=0, stdout=done.stdout, stderr="").json["sound"]
    assert b"\x1b[" in shown
    assert b"bytes" in shown or b"kB" in shown
