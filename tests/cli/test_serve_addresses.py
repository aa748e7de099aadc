"""What clients are told to connect to, by a fresh ``sharegroup serve``."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sharegroup.app.addresses import machine_name
from tests.servers.admin import SILENT, Admin, produce
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.sharegroup_server import SOURCE, START_SECONDS

pytestmark = pytest.mark.process
SECONDS = 240


def serve(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "sharegroup", "serve", "--data", str(folder / "data"), *words]


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[ServerProcess]:
    server = ServerProcess(
        serve(folder, *words),
        log_path=folder / "server.log",
        environment={"PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
    )
    server.start()
    try:
        server.wait_until(lambda: " ready on " in server.output(), timeout_s=START_SECONDS)
        yield server
    finally:
        server.kill()


def told(port: int) -> tuple[str, int]:
    """The address that a client is told, after it has come in by 127.0.0.1."""
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{port}", **SILENT})
    (broker,) = admin.list_topics(timeout=SECONDS).brokers.values()
    return broker.host, broker.port


def write(port: int) -> None:
    """Produce as a client that begins at 127.0.0.1 and goes on to where it is told to go."""
    Admin(f"{HOST}:{port}").create_topic("jobs")
    produce(f"{HOST}:{port}", "jobs", [b"1"])


def refused(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        serve(folder, *words),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={"PYTHONPATH": str(SOURCE)},
        check=False,
    )
    return done.returncode, done.stderr.splitlines()[-1]


def has_address(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_a_listener_on_every_interface_advertises_the_machines_name(
    tmp_path: Path, host: str
) -> None:
    port, name = free_port(), machine_name()
    if not has_address(name):
        status, said = refused(tmp_path, "--insecure", "--listen", f"{host}:{port}")
        assert status == 2
        assert f"this machine's name, {name}, has no address" in said
        return
    with serving(tmp_path, "--insecure", "--listen", f"{host}:{port}") as server:
        assert told(port) == (name, port)
        write(port)
        said = server.output()
    assert f"clients are told to connect to {name}" in said
    assert f"-o advertised.listeners=PLAINTEXT://HOST:{port}" in said
    assert f"ready on {name}:{port}, " in said


def test_advertised_listeners_override_the_machines_name(tmp_path: Path) -> None:
    port = free_port()
    advertised = f"advertised.listeners=PLAINTEXT://localhost:{port}"
    with serving(tmp_path, "--insecure", "--listen", f"0.0.0.0:{port}", "-o", advertised) as server:
        assert told(port) == ("localhost", port)
        write(port)
        assert "clients are told" not in server.output()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_every_interface_cannot_be_advertised(tmp_path: Path, host: str) -> None:
    advertised = f"advertised.listeners=PLAINTEXT://{host}:9092"
    status, said = refused(tmp_path, "--listen", f"0.0.0.0:{free_port()}", "-o", advertised)
    assert status == 2
    assert f"advertised.listeners: clients cannot connect to {host.strip('[]')}; " in said


@pytest.mark.parametrize("option", ["--listen", "--metrics", "--data", "--config", "--users"])
def test_an_option_that_is_given_twice_is_refused(tmp_path: Path, option: str) -> None:
    status, said = refused(tmp_path, option, "127.0.0.1:0", option, "127.0.0.1:1")
    assert status == 2
    assert f"{option} is given twice" in said
    assert ("; for several listeners: -o listeners=" in said) == (option == "--listen")
