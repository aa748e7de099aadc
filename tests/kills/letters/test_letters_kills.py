"""Dead letters under kills, with stock clients, a real broker and an independent checker.

In full size: ``python scripts/dead_letter_kills.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.letters.round import LettersRound
from tests.servers.sharegroup_server import SharegroupServer

RECORDS, KILLS = 2_000, 6
FAULT_S = 2


@pytest.mark.process
@pytest.mark.timeout(900)
def test_each_rejected_record_has_its_letter(tmp_path: Path) -> None:
    server = SharegroupServer(tmp_path / "broker")
    this = LettersRound(server, tmp_path, records=RECORDS, kills=KILLS, fault_s=FAULT_S)
    verdict = this.run(keeps_reasons=True)
    assert not verdict.wrong
    assert verdict.letters - verdict.repeated == RECORDS * 9 // 10
