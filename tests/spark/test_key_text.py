"""A private key as text: the setting in docs/spark.md hides it in the plans of a query."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.secured.cells import Credentials
from tests.servers.sharegroup_server import SOURCE

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("key_text_program.py")
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def documented() -> list[str]:
    """The words of the page that hide a key."""
    found = re.search(r"^--conf 'spark\.redaction.*$", (ROOT / "docs/spark.md").read_text(), re.M)
    assert found is not None
    return shlex.split(found[0])


def test_the_documented_setting_hides_a_key(tmp_path: Path) -> None:
    known = Credentials(tmp_path)
    files = [str(file) for file in (known.key_file, known.certificate_file, known.authority_file)]
    done = subprocess.run(
        [str(SUBMIT), "--master", "local[1]", *documented(), str(PROGRAM), *files],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "kafka.ssl.keystore.key=*********(redacted)" in done.stdout
    key = known.key_file.read_text().splitlines()[1]
    assert key not in done.stdout + done.stderr
