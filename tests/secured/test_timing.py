"""The program that measures refusals runs. What it measures depends on the machine; the work that a
refusal takes is counted in ``tests/broker/authentication/test_refusals.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.secured.hostile.timing import rows

pytestmark = pytest.mark.process


def test_it_has_a_row_for_each_mechanism(tmp_path: Path) -> None:
    plain, scram = rows(tmp_path, tries=2)
    for row, mechanism in ((plain, "PLAIN: "), (scram, "SCRAM-SHA-256: ")):
        assert row.startswith(mechanism)
        assert "unknown user" in row
