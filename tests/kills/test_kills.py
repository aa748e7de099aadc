"""One short round of kills: real clients, a real broker, an independent checker.

For more seeds: ``python scripts/kills.py --seeds 20``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.round import Round

KILLS = 11
SEED = 1


@pytest.mark.process
@pytest.mark.timeout(900)
def test_kills_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    this = Round(tmp_path, SEED, KILLS)
    assert sum(strike.broker for strike in this.strikes) in range(4, 8)
    assert this.run() == [], this.moments
