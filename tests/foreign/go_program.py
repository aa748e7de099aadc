"""Builds the Go program of ours (`go/`) that drives franz-go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "go"
BUILD_SECONDS = 900


def go_command() -> str | None:
    """The `go` of PATH (`make setup` puts one there when the machine has none), or Go's own place
    of installation."""
    return shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def build_go(folder: Path) -> Path:
    """The compiled program; its modules come through Go's own proxy, checked against go.sum."""
    go = go_command()
    if go is None:
        pytest.skip("no go here: run `make setup`")
    built = folder / "share-program"
    done = subprocess.run(
        [
            *(go, "build", "-buildvcs=false", "-mod=readonly"),
            *("-gcflags=all=-N -l", "-ldflags=-s -w", "-o", str(built), "."),
        ],
        cwd=SOURCE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return built
