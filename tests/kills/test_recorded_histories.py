"""The checker judges what clients see of a real broker that is killed (docs/correctness.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.record_history import main
from tests.cli.command import Commands

pytestmark = pytest.mark.process


@pytest.mark.parametrize("client", ["sharegroup", "confluent"])
def test_a_killed_broker(client: str, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    words = ["--client", client, "--seed", "2", "--records", "60", "--kills", "1"]
    assert_nothing_is_wrong(words, history)


@pytest.mark.kafka  # its jars
def test_a_broker_that_was_killed_and_stood_still(tmp_path: Path) -> None:
    words = ["--client", "java", "--seed", "2", "--records", "60", "--kills", "1", "--stops", "1"]
    assert_nothing_is_wrong(words, tmp_path / "history.jsonl")


def assert_nothing_is_wrong(words: list[str], history: Path) -> None:
    assert main([*words, "--out", str(history)]) == 0
    checked = Commands("").run("check", str(history))
    assert checked.status == 0, checked
    assert "1 kill" in checked.stdout
    assert "1 end" in checked.stdout
