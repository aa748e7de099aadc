"""A few of the points; ``scripts/failpoints.py`` has them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failpoints.round import Point, PointRound, compiled

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "point",
    [
        Point("write", 3),
        Point("write", 20, "torn", power=True),
        Point("sync", 5, "before", power=True),
        Point("sync", 12, "after"),
        Point("change", 2, "after"),
    ],
    ids=str,
)
def test_a_broker_that_dies_there(point: Point, tmp_path: Path) -> None:
    died = PointRound(tmp_path, compiled(tmp_path)).die(point)
    assert died.wrong == []
    assert died.there


def test_what_it_does_is_counted(tmp_path: Path) -> None:
    counted = PointRound(tmp_path, compiled(tmp_path)).count()
    assert min(counted.values()) > 5, counted
