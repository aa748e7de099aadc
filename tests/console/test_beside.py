"""The console in the broker's process: ``sharegroup serve --console``."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharegroup import Admin, ShareConsumer
from tests.console.running import Console
from tests.servers.process import HOST, free_port

pytestmark = pytest.mark.process
END_S = 60


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, Console]]:
    """A broker with a console: the process, the broker's address, the console."""
    command = [sys.executable, "-m", "sharegroup", "serve", "--data", str(folder / "data")]
    command += ["--listen", f"{HOST}:0", "--console", f"{HOST}:0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            page = re.fullmatch(r"console on http://[^:]+:(\d+)/\n", process.stdout.readline())
            ready = re.match(r"sharegroup \S+ ready on (\S+), ", process.stdout.readline())
            assert page
            assert ready
            yield process, ready[1], Console(int(page[1]))
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
        (["--console", "-o", "authorizer.class.name=StandardAuthorizer",
          "-o", "super.users=User:admin"], "sharegroup console --bootstrap-server"),
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
