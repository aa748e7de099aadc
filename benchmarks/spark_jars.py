"""PySpark 4.2.0 and the connector of Spark's own Kafka source, fetched once into the user's cache.

4.2.0 is the newest Spark whose ``spark-sql-kafka-0-10_2.13`` can be resolved. It goes into a folder
that comes first on PYTHONPATH; all other packages are those of this environment. Maven fetches the
connector. If the repository lacks the token provider of 4.2.0 (for delegation tokens, which are not
used here), an older one is used.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SPARK = "4.2.0"
TOKEN_PROVIDERS = (SPARK, "4.1.0-preview1")
NEEDED = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
FETCH_SECONDS = 900


class SparkMissing(Exception):
    """PySpark or the connector could not be fetched; the message says why."""


def pyspark_folder() -> Path:
    """The folder that holds PySpark 4.2.0."""
    return _cached(f"pyspark-{SPARK}", _fetch_pyspark)


def connector_jars() -> list[str]:
    """The jars of the connector that are not part of Spark."""
    folder = _cached(f"spark-sql-kafka-{SPARK}", _fetch_connector)
    return sorted(str(jar) for jar in folder.glob("*.jar") if jar.name.startswith(NEEDED))


def _cached(name: str, fetch: Callable[[Path], None]) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharegroup"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=base, prefix="fetch-") as work:
                part = Path(work) / "part"
                part.mkdir()
                fetch(part)
                part.rename(folder)  # so the folder is complete if it exists
    return folder


def _fetch_pyspark(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    failure = _failure([*command, f"pyspark=={SPARK}"], folder.parent)
    if failure:
        raise SparkMissing(f"PySpark {SPARK} could not be installed:\n{failure}")


def _fetch_connector(folder: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    failure = ""
    for token_provider in TOKEN_PROVIDERS:
        (folder.parent / "pom.xml").write_text(_pom(token_provider))
        failure = _failure(["mvn", "-q", "-B", *goal], folder.parent)
        if not failure:
            return
    raise SparkMissing(f"the Kafka connector of Spark {SPARK} could not be fetched:\n{failure}")


def _failure(command: list[str], folder: Path) -> str:
    """Run a command in ``folder``; returns the end of its output if it fails."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS
    )
    return (done.stdout + done.stderr)[-2000:] if done.returncode else ""


def _pom(token_provider: str) -> str:
    return f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>sharegroup</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.spark</groupId>
    <artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
    <version>{token_provider}</version>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.spark</groupId>
    <artifactId>spark-sql-kafka-0-10_2.13</artifactId>
    <version>{SPARK}</version>
  </dependency></dependencies>
</project>
"""
