"""What lets a test's Spark start in half the time. It changes when code is loaded, not which.

* A class-data archive holds Spark's classes as Java keeps them in memory, so that Java neither
  reads nor verifies them again. It fits one Java and the jars of one PySpark, and lies beside these
  jars: `make clean` and pip remove it with them. Where Java can make none, Spark starts as it
  always does.
* Spark's Python processes import PySpark from a zip file of sources, and each compiles them again
  (0.8 s). The byte code goes into the zip, beside each source.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from importlib import _bootstrap_external  # type: ignore[attr-defined]
from pathlib import Path

from tests.apache_kafka.java import java_command

# A test's Spark lives for seconds: code that is compiled for speed costs half of its CPU time, and
# is not used for long enough.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MAKE_SECONDS = 600

# What most tests do: a batch query with Python, and a stream into a table of files.
PROGRAM = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = session.createDataFrame([(1, "a"), (2, "b")], "id int, name string")
rows.groupBy("name").count().collect()
stream = session.readStream.format("rate").load().selectExpr("value", "hash(value) AS more")
writer = stream.writeStream.option("checkpointLocation", sys.argv[1] + "/checkpoint")
writer.trigger(availableNow=True).start(sys.argv[1] + "/table", format="parquet").awaitTermination()
session.read.parquet(sys.argv[1] + "/table").collect()
session.stop()
"""


def installed_pyspark() -> Path:
    """The folder of the PySpark that this process would import; it is not imported here."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise RuntimeError("there is no PySpark here: run `make setup`")
    return Path(found.origin).parent


def options(pyspark: Path) -> str:
    """What SPARK_SUBMIT_OPTS should be for the PySpark in this folder; makes its archive and its
    byte code."""
    compile_once(pyspark)
    release = Path(java_command()).resolve().parent.parent / "release"
    if not release.exists():  # not a Java of the usual form: nothing says which one it is
        return SHORT_LIVED
    java = hashlib.sha256(release.read_bytes()).hexdigest()[:12]
    archive = pyspark / f"classes-{java}.jsa"
    if not archive.exists():
        _make_once(pyspark, archive)
    # Java says on stdout when an archive does not fit; a driver program's stdout is its user's.
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xlog:disable"


def compile_once(pyspark: Path) -> None:
    """Make the byte code of the PySpark in this folder. For two starts of Spark, as older versions
    have them, an archive would cost more than it saves: 30 s of CPU to make, 7 s less per start.
    """
    lib = pyspark / "python" / "lib"
    with (lib / "compiled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for archive in lib.glob("*.zip"):
            _add_byte_code(archive)


def _add_byte_code(archive: Path) -> None:
    """Add to each source in a zip file its byte code, which Python then takes unchecked."""
    made = archive.with_suffix(".tmp")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        if any(name.endswith(".pyc") for name in old.namelist()):
            made.unlink()
            return
        for item in old.infolist():
            source = old.read(item)
            new.writestr(item, source, zipfile.ZIP_DEFLATED)
            if item.filename.endswith(".py") and "/tests/" not in item.filename:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)
                    code = compile(source, item.filename, "exec", dont_inherit=True)
                byte_code = _bootstrap_external._code_to_hash_pyc(code, bytes(8), False)
                new.writestr(f"{item.filename}c", byte_code)
    made.replace(archive)


def _make_once(pyspark: Path, archive: Path) -> None:
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(pyspark, archive)


def _make(pyspark: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=pyspark, prefix="archive-") as folder:
        made = Path(folder) / archive.name
        kept = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
        environment = {
            **kept,
            "PYTHONPATH": str(pyspark.parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} -Xlog:disable",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, folder],
            env=environment,
            timeout=MAKE_SECONDS,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"Spark did not start:\n{done.stdout}{done.stderr}")
        if made.exists():
            made.rename(archive)
