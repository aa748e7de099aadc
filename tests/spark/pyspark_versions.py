"""Other versions of PySpark than that of ``.venv``, installed once per machine and version.

pip installs one from its lock file, hash by hash, into
``$XDG_CACHE_HOME/sharegroup/pyspark-VERSION-HASH``, which takes a minute: PySpark comes as a source
archive of 430 MB with its jars. The folder is complete or not there at all, because it gets its
name by a rename; a lock file keeps parallel runs from installing it twice. Put before all other
folders on PYTHONPATH, it is the PySpark of a process, and of every process that this one starts;
all other packages are those of ``.venv``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.spark import quick_start

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 600


def environment(version: str | None) -> dict[str, str]:
    """The environment of a process that uses this PySpark (``4.2``); None: that of ``.venv``.

    Raises:
        RuntimeError: pip could not install it; the message is pip's.
    """
    given = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    paths = [str(ROOT / "src"), str(ROOT)]
    if version is not None:
        paths.insert(0, str(folder(version)))
        given["SPARK_SUBMIT_OPTS"] = quick_start.SHORT_LIVED
    return {**given, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}


def folder(version: str) -> Path:
    """The folder that holds this PySpark; installs it when it is not there.

    Raises:
        RuntimeError: as :func:`environment`.
    """
    locked = ROOT / f"requirements-pyspark-{version}.lock"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharegroup"
    digest = hashlib.sha256(locked.read_bytes()).hexdigest()[:12]
    installed = base / f"pyspark-{version}-{digest}"
    if installed.exists():
        return installed
    base.mkdir(parents=True, exist_ok=True)
    with installed.with_name(f"{installed.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists():
            _install(locked, installed)
    return installed


def _install(locked: Path, installed: Path) -> None:
    with tempfile.TemporaryDirectory(dir=installed.parent, prefix="pyspark-") as work:
        target = Path(work) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += [
            "--no-compile",
            "--no-deps",
            "--no-build-isolation",
            "--no-cache-dir",
            "--require-hashes",
            # The wheel that pip builds is unpacked at once: its 430 MB of jars are not compressed.
            "--config-settings=--build-option=--compression=stored",
        ]
        done = subprocess.run(
            [*pip, "--target", str(target), "--requirement", str(locked)],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{locked.name} cannot be installed:\n{done.stderr[-4_000:]}")
        target.rename(installed)
