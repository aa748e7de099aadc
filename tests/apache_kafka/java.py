"""The Java on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class JavaMissing(Exception):
    """There is no Java to run; the message says what to do."""


def java_command() -> str:
    """The `java` of JAVA_HOME, or else the first one on PATH; raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise JavaMissing("no java found: install Java 17 or newer, or run `make setup`")
    return found
