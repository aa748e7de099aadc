"""A proxy logs viewers in and names them in a header."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import Admin
from tests.console.running import ACT, Console, console
from tests.servers.process import HOST
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
HEADER = "X-Forwarded-User"
TOPIC = "jobs"
END_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    async def prepare(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(TOPIC)

    with SharegroupServer(tmp_path_factory.mktemp("proxy")) as running:
        asyncio.run(prepare(running.bootstrap))
        yield running


def test_a_viewer_is_who_the_proxy_says(server: SharegroupServer, tmp_path: Path) -> None:
    with console(server.bootstrap, tmp_path, "--login-header", HEADER, "--acts") as page:
        status, _, body = page.answer("/api/v1/topics")
        assert (status, body) == (
            401, b'{"error":"the proxy names nobody in X-Forwarded-User","login":false}'
        )  # fmt: skip
        about = asked(page, "about", "zoë")
        assert (about["user"], about["acts"], about["may_leave"]) == ("zoë", True, False)
        assert [one["topic"] for one in asked(page, "topics", "bob")["topics"]] == [TOPIC]
        token = asked(page, "about", "bob")["token"]
        assert token != about["token"]
        given = b'{"topic": "made", "partitions": 1, "do": true}'
        for user, sent, status in (("zoë", token, 403), ("bob", "1", 403), ("bob", token, 200)):
            headers = {HEADER: user.encode().decode("latin-1"), ACT: sent}
            answered = page.answer(
                "/api/v1/acts/create-topic", method="POST", headers=headers, body=given
            )
            assert answered[0] == status, answered
    assert "'bob': create-topic" in (tmp_path / "console.log").read_text()


def asked(page: Console, name: str, user: str) -> dict[str, object]:
    page.proxy = {HEADER: user.encode().decode("latin-1")}
    found: dict[str, object] = page.json(name)
    return found


def test_a_header_from_elsewhere_is_not_believed(server: SharegroupServer, tmp_path: Path) -> None:
    options = ("--login-header", HEADER, "--proxy", "192.0.2.1")
    with console(server.bootstrap, tmp_path, *options) as page:
        status, _, body = page.answer("/api/v1/topics", headers={HEADER: "alice"})
        assert (status, body) == (
            401, b'{"error":"this console answers its proxy only","login":false}'
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--login-header", HEADER, "--login"], "contradict each other"),
        (["--login-header", HEADER, "--proxy", "proxy"], "write its IP address"),
        (["--proxy", HOST], "--proxy needs --login-header"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: list[str], said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup", "console", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=END_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
