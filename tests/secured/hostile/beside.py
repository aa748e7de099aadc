"""Runs the neighbour while something else happens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.secured.cells import PASSWORD, USER
from tests.secured.hostile.neighbour import Times

ROOT = Path(__file__).resolve().parents[3]


class Neighbour:
    """``times`` are there when it has ended."""

    times: Times

    @property
    def p99_ms(self) -> float:
        """Of its requests."""
        return quantile(self.times.requests, 0.99)

    def __str__(self) -> str:
        requests, logins = self.times.requests, self.times.logins
        return (
            f"{len(requests)} requests p50 {quantile(requests, 0.5):.2f} p99 {self.p99_ms:.2f} "
            f"max {requests[-1]:.1f} ms; {len(logins)} logins p50 {quantile(logins, 0.5):.1f} "
            f"p99 {quantile(logins, 0.99):.1f} ms; {len(self.times.failures)} failures "
            f"{self.times.failures[:2]}"
        )


def quantile(values: list[float], part: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(part * len(values)))]


@contextmanager
def neighbour(address: str) -> Iterator[Neighbour]:
    """It works from the beginning of the block to its end."""
    command = [sys.executable, "-m", "tests.secured.hostile.neighbour", address, USER, PASSWORD]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    found = Neighbour()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield found
        printed, _ = process.communicate(timeout=100)
        found.times = Times(**json.loads(printed))
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
