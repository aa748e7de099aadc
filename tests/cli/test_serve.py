"""``sharegroup serve`` as a process: metrics, several listeners, and settings that cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.broker.authorization.clients import write_acls
from tests.servers.process import HOST, answers_api_versions, free_port
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process
SECONDS = 240


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status, and the last line of what ``serve`` says."""
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(folder / "data")]
    done = subprocess.run(
        [*command, "--listen", f"{HOST}:0", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={"PYTHONPATH": str(SOURCE)},
        check=False,
    )
    return done.returncode, done.stderr.splitlines()[-1]


def test_metrics_are_served_and_end_with_the_broker(tmp_path: Path) -> None:
    port = free_port()
    with (
        SharegroupServer(tmp_path, f"metrics.address={HOST}:{port}"),
        urlopen(f"http://{HOST}:{port}/metrics", timeout=SECONDS) as answer,
    ):
        text = answer.read().decode()
    assert "sharegroup_connections 0.0" in text
    assert "sharegroup_event_loop_lag_seconds_count" in text
    assert "process_resident_memory_bytes" in text


def test_health_is_served_beside_metrics(tmp_path: Path) -> None:
    probe = f"http://{HOST}:{free_port()}"
    with SharegroupServer(tmp_path, f"metrics.address={probe.removeprefix('http://')}"):
        for path, says in (("live", b"live\n"), ("ready", b"ready\n")):
            with urlopen(f"{probe}/health/{path}", timeout=SECONDS) as answer:
                assert answer.read() == says


def test_every_listener_is_opened(tmp_path: Path) -> None:
    second = free_port()
    with SharegroupServer(
        tmp_path,
        f"listeners=PLAINTEXT://{HOST}:1,SECOND://{HOST}:{second}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    ) as server:
        assert answers_api_versions(server.port), "the first one, where --listen says"
        assert answers_api_versions(second)


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_data_folder_that_others_can_read_is_told_of(tmp_path: Path, mode: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(mode)  # whatever the umask is
    with SharegroupServer(tmp_path) as server:
        lines = server.output().splitlines()
    warned = [line for line in lines if "can be read by other users" in line]
    assert len(warned) == (mode != 0o700)
    assert all(line.endswith(f"chmod 700 {tmp_path}/data") for line in warned)


def test_a_metrics_address_in_use_is_reported(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path / "first") as server:
        status, said = refused(tmp_path, "--metrics", server.bootstrap)
    assert status == 2
    assert f"cannot serve metrics on {server.bootstrap}: " in said


def test_an_invalid_metrics_address_is_reported(tmp_path: Path) -> None:
    status, said = refused(tmp_path, "--metrics", "9404")
    assert (status, said) == (
        2,
        "sharegroup serve: --metrics takes HOST:PORT, such as 127.0.0.1:9092, not '9404'",
    )


def test_an_invalid_acl_file_prevents_the_start(tmp_path: Path) -> None:
    file = write_acls(tmp_path / "acls.csv", ["ALLOW,alice,*,READ,TOPIC,jobs,LITERAL"])
    status, said = refused(tmp_path, "-o", f"authorizer.acl.file={file}")
    assert status == 2
    assert said.endswith("line 2: principal 'alice' is not Type:name, such as User:alice")


def test_a_missing_acl_file_prevents_the_start(tmp_path: Path) -> None:
    status, said = refused(tmp_path, "-o", f"authorizer.acl.file={tmp_path / 'none.csv'}")
    assert status == 2
    assert "cannot be read" in said
