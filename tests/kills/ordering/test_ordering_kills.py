"""Order per key under kills: stock clients, a real broker, an independent checker.

For more seeds: ``python scripts/kills.py --ordering --seeds 20``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.ordering.round import How, OrderedRound

KILLS = 50
SEED = 1


@pytest.mark.kafka
@pytest.mark.timeout(1500)  # 108 s alone; members start some 60 times
def test_kills_leave_each_key_in_order(tmp_path: Path) -> None:
    this = OrderedRound(tmp_path, SEED, KILLS)
    kills = [strike for strike in this.strikes if strike.how in (How.KILL, How.BROKER)]
    assert len(kills) == KILLS
    assert this.run() == [], this.moments
