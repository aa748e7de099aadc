"""``.venv/bin/python job.py``: the environment is not activated, and Spark finds the format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.sharegroup_server import SOURCE

pytestmark = [pytest.mark.spark, pytest.mark.process]

PROGRAM = """
from pyspark.sql import SparkSession
from sharegroup.spark import spark_session

spark = spark_session(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false"))
rows = spark.readStream.format("kafka-share").option("kafka.bootstrap.servers", "127.0.0.1:1")
print(rows.option("kafka.group.id", "g").option("subscribe", "t").load().columns)
print(spark.conf.get("spark.python.unix.domain.socket.enabled"))
"""


def test_a_program_without_an_activated_environment(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho this Python has no sharegroup >&2\nexit 1\n")
    other.chmod(0o755)
    given = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**given, "PATH": f"{other.parent}:{given['PATH']}", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-2:] == [
        "['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'delivery_count']",
        "true",
    ]
