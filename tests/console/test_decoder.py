"""A user's decoder of values: ``--decoder`` of ``console`` and ``consume``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import Admin, Producer
from tests.console.running import console
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process
TOPIC = "orders"
END_S = 60
DECODERS = """
import struct
def decode(value):
    number, amount = struct.unpack(">IH", value)
    return {"order": number, "amount": amount}
def half(value):
    raise ValueError("\\ud83d")
def text(value):
    return value.hex()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    async def prepare(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics(TOPIC)
            for value in (b"\xff\0\0\7\0\5", b"\0", None):
                await producer.send(TOPIC, value)

    with SharegroupServer(tmp_path_factory.mktemp("decoder")) as running:
        asyncio.run(prepare(running.bootstrap))
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "orders.py").write_text(DECODERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_console_shows_what_a_value_means(server: SharegroupServer, here: Path) -> None:
    with console(server.bootstrap, here, "--decoder", "orders:decode") as page:
        found = [page.json("record", topic=TOPIC, partition=0, offset=n) for n in range(3)]
        assert found[0]["decoded"]["form"] == "json"
        assert found[0]["decoded"]["text"] == '{\n  "order": 4278190087,\n  "amount": 5\n}'
        assert found[0]["value"]["text"] == "ff 00 00 07 00 05"
        assert found[1]["decoded"] == {"error": "error: unpack requires a buffer of 6 bytes"}
        assert found[2]["decoded"] is None
    with console(server.bootstrap, here, "--decoder", "orders:half") as page:
        found = page.json("record", topic=TOPIC, partition=0, offset=0)
        assert found["decoded"] == {"error": "ValueError: \ud83d"}
    with console(server.bootstrap, here) as page:
        assert page.json("record", topic=TOPIC, partition=0, offset=0)["decoded"] is None


def consume(
    server: SharegroupServer, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sharegroup", "consume", TOPIC, "--peek"]
    return subprocess.run(
        [*command, "-b", server.bootstrap, *options],
        cwd=folder, capture_output=True, text=True, timeout=END_S, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip


def test_consume_prints_what_a_value_means(server: SharegroupServer, here: Path) -> None:
    done = consume(server, here, "--until", "latest", "--decoder", "orders:decode")
    assert done.stdout == '{"order": 4278190087, "amount": 5}\n\0\n\n'
    assert done.stderr.count("cannot decode orders:0@1") == 1
    done = consume(
        server, here, "--until", "latest", "--decoder", "orders:text", "-f", r"%o %s %S\n"
    )
    assert done.stdout == "0 ff0000070005 6\n1 00 1\n2  -1\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--decoder", "orders:missing"], "orders has no 'missing': it has decode, half, text"),
        (["--decoder", "orders"], "'orders' names no decoder: write MODULE:FUNCTION"),
        (["--decoder", "orders:decode", "--json"], "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused(
    server: SharegroupServer, here: Path, options: list[str], said: str
) -> None:
    done = consume(server, here, *options)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
