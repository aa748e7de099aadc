"""The README's first screen is true: its examples are run as they stand, its commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.sharegroup_server import SharegroupServer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLES = dict(re.findall(r"## Ten lines of (\w+)\n.*?```python\n(.*?)```", README, re.DOTALL))
COMMANDS = re.search(r"```\n(sharegroup serve &\n.*?)```", README, re.DOTALL)


def run_example(text: str, server: SharegroupServer, folder: Path) -> str:
    """Run a README example against ``server`` in ``folder``; what it printed."""
    program = folder / "example.py"
    program.write_text(text.replace("127.0.0.1:9092", server.bootstrap))
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path) as started:
        yield started


@pytest.mark.process
def test_the_python_example(server: SharegroupServer, tmp_path: Path) -> None:
    assert len(EXAMPLES["Python"].strip().splitlines()) <= 15
    printed = run_example(EXAMPLES["Python"], server, tmp_path)
    assert printed == "b'resize cat.jpg' delivery 1\n"


@pytest.mark.spark
def test_the_spark_example(server: SharegroupServer, tmp_path: Path) -> None:
    run_example(EXAMPLES["Python"], server, tmp_path)
    count = "\nprint(spark.read.parquet('out').collect()[0].job)\n"
    assert "resize cat.jpg" in run_example(EXAMPLES["Spark"] + count, server, tmp_path)


@pytest.mark.process
def test_the_polars_example(server: SharegroupServer, tmp_path: Path) -> None:
    assert len(EXAMPLES["Polars"].strip().splitlines()) <= 15
    run_example(EXAMPLES["Python"], server, tmp_path)
    assert "│ resize cat.jpg ┆ 0      ┆ 1" in run_example(EXAMPLES["Polars"], server, tmp_path)


@pytest.mark.process
def test_the_test_example(server: SharegroupServer, tmp_path: Path) -> None:
    assert len(EXAMPLES["test"].strip().splitlines()) <= 15
    run_example(EXAMPLES["test"], server, tmp_path)  # it has a broker of its own


@pytest.mark.process
def test_the_commands(server: SharegroupServer, tmp_path: Path) -> None:
    assert COMMANDS is not None
    lines = COMMANDS.group(1).strip().splitlines()[1:]
    script = "\n".join(
        line.replace("sharegroup ", f"{sys.executable} -m sharegroup ", 1) for line in lines
    )
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "SHAREGROUP_BOOTSTRAP_SERVER": server.bootstrap,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "10 records accepted" in done.stderr
    assert "workers" in done.stdout
