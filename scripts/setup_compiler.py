"""Find a C compiler for the walk over records, or install one from PyPI; run by
setup_environment.py before it installs the project.

If the machine has a compiler, nothing is changed. Otherwise the package ziglang (about 90 MB)
provides one. Without either, everything works, with the walk in Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("cc", "gcc", "clang")


def main() -> None:
    """Install a compiler if the machine has none. If that fails, print so and continue."""
    if machine_compiler() is not None or os.environ.get("SHAREGROUP_PURE") == "1":
        return
    print("setup: no C compiler here, installing ziglang's", flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    lock = str(ROOT / "requirements-zig.lock")
    done = subprocess.run(
        [*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock], check=False
    )
    if done.returncode:
        print("setup: ziglang cannot be installed; the walk over records is in Python", flush=True)


def machine_compiler() -> str | None:
    """The compiler that the build (``hatch_build.py``) prefers."""
    names = (*os.environ.get("CC", "").split()[:1], *COMPILERS)
    return next((found for name in names if (found := shutil.which(name))), None)


if __name__ == "__main__":
    main()
