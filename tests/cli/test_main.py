"""`sharegroup` itself: what it loads, its help, its version, and `serve`."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sharegroup
from sharegroup.records.walk import NAME
from tests.cli.command import SECONDS, Commands, finish
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
WORK = ("work", "json:loads", "-t", "t", "-g", "g")
HEAVY = {"aiokafka", "click", "pydantic", "pythonjsonlogger", "rich", "sharegroup.client", "typer"}
PRINT_LOADED = """
import sys
from sharegroup.cli import serve
import sharegroup.app.serve
def run(options):
    print(*sys.modules)
    return 0
sharegroup.app.serve.run = run
from sharegroup.cli import main
main(["serve", "-o", "num.partitions=2"])
"""


@pytest.fixture
def offline() -> Commands:
    """Commands that need no broker."""
    return Commands("127.0.0.1:1")


def test_serve_loads_neither_the_client_nor_typer() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PRINT_LOADED], capture_output=True, text=True, check=True
    )
    loaded = set(shown.stdout.split())
    assert "sharegroup.broker.server" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.process
@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize(
    "words",
    [
        ("consume", "jobs", "--group", "workers", "--timeout"),
        ("transactions", "list", "--longer-than"),
        (*WORK, "--until-idle"),
        (*WORK, "--drain"),
        (*WORK, "--handler-timeout"),
    ],
)
def test_a_time_is_finite(offline: Commands, words: tuple[str, ...], value: str) -> None:
    done = offline.run(*words, value)
    assert done.status == 2
    assert "Invalid value for" in done.stderr


@pytest.mark.process
def test_version(offline: Commands) -> None:
    shown = offline.ok("--version").stdout
    assert shown == f"sharegroup {sharegroup.__version__} (walk over records: {NAME})\n"


@pytest.mark.process
def test_help_names_every_command(offline: Commands) -> None:
    shown = offline.ok("--help").stdout
    for command in (
        "serve",
        "topics",
        "produce",
        "consume",
        "work",
        "groups",
        "dead",
        "transactions",
        "nodes",
        "spark-report",
    ):
        assert command in shown
    assert "--listen [PROTOCOL://]HOST:PORT" in offline.ok("serve", "--help").stdout
    assert offline.run().status == 2
    assert offline.run("srve").status == 2


@pytest.mark.process
def test_no_broker(offline: Commands) -> None:
    started = [
        offline.start("groups", "list", "--json"),
        offline.start("topics", "list"),
        offline.start("consume", "t", "-g", "g"),
        offline.start(*WORK),
        offline.start("produce", "t"),
    ]
    for process in started:
        done = finish(process, stdin="a\n")
        assert done.status == 3, done
        assert done.stdout == ""
        assert "127.0.0.1:1" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [("topics", "list"), ("consume", "t", "-g", "g"), ("produce", "t"), WORK]
)
def test_ctrl_c_while_the_broker_does_not_answer(words: tuple[str, ...]) -> None:
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(SECONDS)
        process = Commands(f"{HOST}:{listener.getsockname()[1]}").start(*words)
        with listener.accept()[0]:
            process.send_signal(signal.SIGINT)
            done = finish(process)
    assert done.status == 130
    assert "Traceback" not in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_serve_until_a_signal(offline: Commands, tmp_path: Path, number: signal.Signals) -> None:
    address = f"{HOST}:{free_port()}"
    settings = tmp_path / "server.properties"
    settings.write_text("num.partitions=5\n", encoding="utf-8-sig")  # an editor wrote a BOM
    process = offline.start(
        "serve", "--listen", address, "--data", str(tmp_path / "data"), "--config", str(settings)
    )
    assert process.stdout is not None
    ready = process.stdout.readline().decode()
    assert ready.startswith(f"sharegroup {sharegroup.__version__} ready on {address}, ")
    assert Commands(address).ok("topics", "create", "t", "--json").json["partitions"] == 5
    process.send_signal(number)
    assert finish(process).status == 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--listen", "nowhere"), "HOST:PORT"),
        (("-o", "num.partitons=2"), "num.partitions"),
        (("-o", "num.partitions=none"), "num.partitions"),
        (("--config", "nowhere.properties"), "nowhere.properties"),
        (("--lissen", "1"), "--lissen"),
    ],
)
def test_serve_reports_errors(
    offline: Commands, tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    done = offline.run("serve", "--data", str(tmp_path / "data"), *words)
    assert done.status == 2
    assert done.stdout == ""
    assert complaint in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_serve_refuses_a_folder_that_is_in_use(offline: Commands, tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        done = offline.run("serve", "--listen", f"{HOST}:{free_port()}", "--data", str(server.data))
    assert done.status == 2
    assert str(server.data) in done.stderr


def check_page(*path: str) -> int:
    check = [sys.executable, "scripts/docs_cli.py", "--check", *path]
    return subprocess.run(check, cwd=ROOT, check=False).returncode


@pytest.mark.process
def test_the_page_of_the_command_line_is_up_to_date(tmp_path: Path) -> None:
    assert check_page() == 0, "run `make docs`"
    sections = PAGE.split("\n## ")
    without_last = tmp_path / "cli.md"
    without_last.write_text("\n## ".join(sections[:-1]))
    assert check_page(str(without_last)) == 1


def test_every_command_that_a_help_lists_has_its_section_on_the_page() -> None:
    sections = dict(re.findall(r"^## (sharegroup[^\n]*)\n\n```text\n(.*?)^```", PAGE, re.M | re.S))
    listed = {
        f"{name} {verb}"
        for name, text in sections.items()
        for verbs in re.findall(r"^Commands:\n((?:  [^\n]*\n)+)", text, re.M)
        for verb in re.findall(r"^  (\S+)", verbs, re.M)
    }
    assert {"sharegroup spark-report", "sharegroup groups records"} < listed
    assert listed == sections.keys() - {"sharegroup"}
