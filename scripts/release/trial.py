"""A file of a release in an empty environment, as whoever installs it has it: the README's lines
run there, by what was installed and nothing of this repository.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from scripts.release.running import Commands, ReleaseError
from tests.documents.pages import ROOT, Page, parse
from tests.documents.running import DocumentError, RunningPage

INSTALL_S_MAX: Final = 400
QUICK_S_MAX: Final = 60
NEED_AN_EXTRA: Final = ("pyspark", "polars")
COMPILED: Final = "compiled"
PURE: Final = "pure Python"


def try_file(file: Path, folder: Path, commands: Commands, *, version: str, walk: str) -> None:
    """Raises ReleaseError if it cannot be installed, says another version or walk than these, or
    a program of the README does not do there what the page says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = folder / "venv" / "bin" / "python"

    def run(*command: str | Path, within_s: float = QUICK_S_MAX) -> str:
        return commands.run(command, within_s=within_s, cwd=folder, env=env)

    run(sys.executable, "-m", "venv", folder / "venv")
    run(python, "-m", "pip", "install", file, within_s=INSTALL_S_MAX)
    run(python, "-m", "pip", "check")
    said = run(python.with_name("sharegroup"), "--version").strip()
    if said != f"sharegroup {version} (walk over records: {walk})":
        raise ReleaseError(f"{file.name} is installed, and says {said!r}")
    try:
        with RunningPage(first_lines(), folder, python=python) as running:
            running.run_all()
    except DocumentError as error:
        raise ReleaseError(f"with {file.name} installed, {error}") from error


def first_lines() -> Page:
    """The README with the programs that need no extra."""
    page = parse("README.md", (ROOT / "README.md").read_text())
    page.programs = [
        program
        for program in page.programs
        if not any(name in program.text for name in NEED_AN_EXTRA)
    ]
    return page
