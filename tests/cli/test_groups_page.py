"""docs/groups.md tells the truth: its commands print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.sharegroup_server import SharegroupServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "groups.md").read_text()
COMMANDS = re.findall(
    r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)",
    "".join(re.findall(r"```console\n(.*?)```", PAGE, re.S)),
    re.M,
)
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)

pytestmark = pytest.mark.process


def printed_by(command: list[str], bootstrap: str, folder: Path) -> str:
    """Both outputs, each line without the spaces at its end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "SHAREGROUP_BOOTSTRAP_SERVER": bootstrap,
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_the_page(tmp_path: Path) -> None:
    assert len(COMMANDS) > 10
    with SharegroupServer(tmp_path / "server") as server:  # Apache Kafka shows other start offsets
        run_page(server.bootstrap, tmp_path)


def run_page(bootstrap: str, folder: Path) -> None:
    for command, shown in COMMANDS:
        script = re.sub(r"\bsharegroup (?=[a-z]+ )", f"{sys.executable} -m sharegroup ", command)
        bash = ["bash", "-c", script]
        assert printed_by(bash, bootstrap, folder) == shown, command

    program = EXAMPLE.replace("127.0.0.1:9092", bootstrap)
    printed = printed_by([sys.executable, "-c", program], bootstrap, folder)
    assert printed == "orders-0 5 1\n"
