"""A program as cron starts it: ``venv/bin/python job.py`` with no environment activated; and with a
PySpark that is too old.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.pyspark_versions import environment

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(900)]

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
SECONDS = 800

PROGRAM = """
spark = SESSION
options = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.group.id": "g", "subscribe": "t"}
reader = spark.readStream.format("kafka-share").options(**options)
rows = spark.range(1).selectExpr("'x' AS value").write.format("kafka-share").mode("append")
for step in (lambda: print(*reader.load().columns), lambda: rows.option("topic", "t").save()):
    try:
        step()
    except Exception as error:
        print(error)
"""


BUILDER = 'SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")'
PLAIN = f"{BUILDER}.getOrCreate()"


def started(
    folder: Path, environment: dict[str, str], session: str = PLAIN, first_lines: str = ""
) -> str:
    """What the program printed."""
    program = folder / "job.py"
    work = PROGRAM.replace("SESSION", session)
    program.write_text(f"{first_lines}\nfrom pyspark.sql import SparkSession\n{work}")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


def cron(folder: Path) -> dict[str, str]:
    """What cron sets, Java, and a ``python3`` that has none of our packages."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    java = Path(str(shutil.which("java"))).parent
    kept = ("JAVA_HOME", "SPARK_SUBMIT_OPTS")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    return {**given, "PATH": f"{folder / 'bin'}:{java}:/usr/bin:/bin", "HOME": str(folder)}


def documented_line() -> str:
    """That of the guide which names the program's own Python without our help."""
    (line,) = re.findall(r'`(os\.environ\["PYSPARK_PYTHON"\].*?)`', GUIDE.read_text())
    return f"import os, sys\n{line}"


def test_without_the_documented_line_spark_uses_another_python(tmp_path: Path) -> None:
    printed = started(tmp_path, cron(tmp_path))
    assert "delivery_count" not in printed
    assert "DATA_SOURCE_NOT_FOUND" in printed or "No module named" in printed


def test_with_the_documented_line_spark_finds_the_source(tmp_path: Path) -> None:
    printed = started(tmp_path, cron(tmp_path), first_lines=documented_line())
    assert "key value topic partition offset timestamp delivery_count" in printed


def test_a_session_of_ours_finds_the_source(tmp_path: Path) -> None:
    imported = "from sharegroup.spark import spark_session"
    session = f"spark_session({BUILDER})"
    printed = started(tmp_path, cron(tmp_path), session, imported)
    assert "key value topic partition offset timestamp delivery_count" in printed


@pytest.mark.older_spark
def test_an_older_pyspark_says_what_to_install(tmp_path: Path) -> None:
    """4.1, for source and sink; 4.0 looks for sources in the same way."""
    printed = started(tmp_path, environment("4.1"))
    sentence = "kafka-share needs PySpark 4.2 or newer, and this is PySpark 4.1."
    assert printed.count(sentence) == 2, printed
    assert "pip install 'pyspark>=4.2'" in printed
    assert "DATA_SOURCE_NOT_FOUND" not in printed
