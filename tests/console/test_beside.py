"""The console in the broker's process: ``sharegroup serve --console``."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharegroup import Admin, ShareConsumer
from sharegroup.sasl.users_file import user_lines
from tests.console.running import Console
from tests.servers.process import HOST, free_port

pytestmark = pytest.mark.process
END_S = 60


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, Console]]:
    """A broker with a console: the process, the broker's address, the console."""
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(folder / "data")]
    command += ["--listen", f"{HOST}:0", "--console", f"{HOST}:0", *options]
    with started(command) as (process, lines):
        page, ready = lines
        yield process, ready, Console(int(page.rpartition(":")[2].rstrip("/")))


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], tuple[str, str]]]:
    """A broker: the process, the address of its console, the broker's address."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            page = None
            for line in process.stdout:
                page = page or re.fullmatch(r"console on (https?://[^:]+:\d+/)\n", line)
                if ready := re.match(r"sharegroup \S+ ready on (\S+), ", line):
                    break
            assert page
            assert ready
            yield process, (page[1], ready[1])
        finally:
            process.kill()


def test_it_shows_the_broker_and_ends_with_it(tmp_path: Path) -> None:
    async def use(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics("jobs")
        async with ShareConsumer("jobs", group_id="workers", bootstrap_servers=bootstrap) as one:
            await one.poll(100)

    with serving(tmp_path) as (process, bootstrap, page):
        assert page.json("queues")["queues"] == []
        asyncio.run(use(bootstrap))
        assert [one["group"] for one in page.json("queues")["queues"]] == ["workers"]
        with page.events() as events:
            next(events)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=END_S)
        assert process.returncode == 0
        assert "Traceback" not in errors
        assert "ERROR" not in errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--console", "0.0.0.0:0"], "would be open to whoever reaches it"),
        (["--console", "0.0.0.0:0", "-o", "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
          "-o", "sasl.enabled.mechanisms=SCRAM-SHA-256", "-o", "super.users=User:admin",
          "-o", "authorizer.class.name=StandardAuthorizer"], "have passwords sent in the clear"),
        (["--console", "-o", "authorizer.class.name=StandardAuthorizer",
          "-o", "super.users=User:admin"], "sharegroup console --bootstrap-server"),
        (["--console", "-o", f"authorizer.acl.file={os.devnull}"],
         "sharegroup console --bootstrap-server"),
        (["--console", "here"], "--console takes HOST:PORT"),
    ],
)  # fmt: skip
def test_what_would_show_too_much_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(tmp_path)]
    done = subprocess.run(
        [*command, "--listen", f"{HOST}:{free_port()}", *options],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr


def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, bootstrap, _page):
        command = [sys.executable, "-m", "sharegroup", "console", bootstrap, "-b", bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
        assert done.returncode == 2
        assert done.stderr.endswith(
            f"cannot serve the console on {bootstrap}: Address already in use\n"
        )


@pytest.mark.parametrize("host", [HOST, "0.0.0.0"])
def test_where_the_broker_has_users_viewers_log_in(tmp_path: Path, host: str) -> None:
    """On an address that others reach, by https with the listener's certificate."""
    lines = user_lines("alice", "canary", bytes(range(48)), 4096)
    (tmp_path / "users").write_text("\n".join([*lines, ""]))
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(tmp_path / "data")]
    command += ["--listen", f"SASL_SSL://{HOST}:0", "--tls-self-signed", str(tmp_path / "tls")]
    command += ["--users", str(tmp_path / "users"), "-o", "super.users=User:alice"]
    command += ["-o", "authorizer.class.name=StandardAuthorizer", "--console", f"{host}:0"]
    with started(command) as (process, (address, _)):
        tls = None
        if address.startswith("https:"):
            tls = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        assert (tls is None) == (host == HOST)
        page = Console(int(address.rpartition(":")[2].rstrip("/")), tls)
        page.json("queues", status=401)
        page.log_in("alice", "wrong", status=401)
        cookie = page.log_in("alice", "canary")["set-cookie"]
        assert cookie.startswith("sharegroup=" if tls is None else "__Host-sharegroup=")
        assert ("Secure" in cookie) == (tls is not None)
        assert page.json("queues")["queues"] == []
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "canary" not in errors
