"""The soak, for seconds in place of an hour, as `make soak` starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.samples import Sample, grown

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Sample(0, 50, 40, 14, 12, 1, 3, 5)


@pytest.mark.process
def test_a_short_soak(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/soak.py", "--minutes", "0.2", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing has grown, and every rule holds\n")
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    samples = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert len(samples) > 3
    assert all(one["tasks"] > 0 and one["descriptors"] > 10 for one in samples)


@pytest.mark.parametrize(
    ("field", "to", "said"),
    [
        ("memory_mib", 80, "memory_mib has grown from 50 to 80 MiB"),
        ("descriptors", 100, "descriptors has grown from 40 to 100"),
        ("tasks", 100, "tasks has grown from 12 to 100"),
        ("internal_mib", 20, "internal_mib has grown from 1 to 20 MiB"),
        ("p99_ms", 100, "p99_ms has grown from 5 to 100 ms"),
        ("memory_mib", 70, None),
    ],
)
def test_what_grows_is_named(field: str, to: float, said: str | None) -> None:
    later = replace(SAMPLE, **{field: to})
    found = grown([SAMPLE] * 60 + [later] * 60)
    assert found == ([] if said is None else [said])
