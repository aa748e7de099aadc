"""Pause, fork and purge under load and kills, with an independent checker.

For more seeds: ``python scripts/kills.py --hands --seeds 20``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.hands.round import HandsRound

ACTS = 9
SEED = 1


@pytest.mark.process
@pytest.mark.timeout(900)
def test_acts_under_load_lose_and_repeat_nothing(tmp_path: Path) -> None:
    this = HandsRound(tmp_path, SEED, ACTS)
    assert this.run() == [], this.moments
