"""Every option through real Spark; `make test-older-spark` runs them on the oldest PySpark that we
support."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from sharegroup.spark.options.letters import LETTERS
from sharegroup.spark.options.sink import SINK
from sharegroup.spark.options.snapshot import PEEK
from sharegroup.spark.options.stream import STREAM
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark import quick_start
from tests.spark.every_option.program import names
from tests.spark.pyspark_versions import environment
from tests.spark.pyspark_versions import folder as folder_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("every option"),
]

TABLES = {"stream": STREAM, "look": PEEK, "letters": LETTERS, "sink": SINK}
NEWEST = "4.3"
VERSION = os.environ.get("SHAREGROUP_SPARK", NEWEST)
SECONDS = 600  # far more than it takes: others may use the machine as well


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of all cases."""
    folder = tmp_path_factory.mktemp("every-option")
    (folder / "mortal").mkdir()
    with SharegroupServer(folder) as server, SharegroupServer(folder / "mortal") as mortal:
        module = "tests.spark.every_option.program"
        command = [sys.executable, "-m", module, server.bootstrap]
        command += [mortal.bootstrap, str(mortal.process.pid), str(folder)]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment_of(VERSION),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["pyspark"].startswith(f"{VERSION}.")
    return found


def environment_of(version: str) -> dict[str, str]:
    """The environment of a program that uses this PySpark."""
    if version == NEWEST:
        return environment(None)
    quick_start.compile_once(folder_of(version) / "pyspark")
    return environment(version)


@pytest.mark.parametrize("name", names())
def test_a_case(ran: dict[str, Any], name: str) -> None:
    assert ran["outcomes"][name] == ""


@pytest.mark.parametrize("name", TABLES)
def test_every_option_is_given_by_a_case(ran: dict[str, Any], name: str) -> None:
    given = {option.lower() for option in ran["given"][name]}
    names_in_table = [option.name for option in TABLES[name].options]
    assert [option for option in names_in_table if option.lower() not in given] == []
