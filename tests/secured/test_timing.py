"""The program that measures refusals runs. What it measures depends on the machine; the work that a
refusal takes is counted in ``tests/broker/authentication/test_refusals.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.secured.hostile.timing import rows

pytestmark = pytest.mark.process


def test_it_has_rows_for_each_mechanism(tmp_path: Path) -> None:
    found = list(rows(tmp_path, tries=2))
    begins = ("PLAIN: ", "PLAIN by tokens: ", "SCRAM-SHA-256: ", "SCRAM-SHA-256 by tokens: ")
    for row, begin in zip(found, begins, strict=True):
        assert row.startswith(begin)
        assert "unknown user" in row
