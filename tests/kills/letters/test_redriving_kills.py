"""A redrive under interruptions.

In full size: ``python scripts/dead_letter_kills.py --redrive``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills.letters.redriving import play
from tests.servers.sharegroup_server import SharegroupServer

LETTERS, INTERRUPTIONS = 3_000, 6


@pytest.mark.process
@pytest.mark.timeout(900)
def test_each_letter_is_redriven_once(tmp_path: Path) -> None:
    server = SharegroupServer(tmp_path / "broker")
    ended = play(server, tmp_path, letters=LETTERS, interruptions=INTERRUPTIONS)
    assert not ended.wrong
    assert ended.redrives == INTERRUPTIONS + 1
