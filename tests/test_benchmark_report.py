"""The table of benchmarks says which Apache Kafka each row was measured on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.benchmark import Benchmark, Row
from benchmarks.report import add_earlier, lines
from benchmarks.runner import Results
from benchmarks.systems import EARLIER_PEERS, OURS, PEER

ROWS = (Row(key="old", title="old", unit="s"), Row(key="new", title="new", unit="s"))
BENCHMARK = Benchmark(name="two rows", rows=ROWS, run=lambda _: {})
VERSION = EARLIER_PEERS[0].rpartition(" ")[2]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Both rows were measured on the earlier Apache Kafka, and one of them anew on today's."""
    path = tmp_path / "benchmarks.json"
    earlier = {OURS: [1.0, 3.0], EARLIER_PEERS[0]: [4.0]}
    path.write_text(json.dumps({"samples": {"old": earlier, "new": earlier}}))
    found = Results()
    found.samples["new"][OURS].append(5.0)
    found.samples["new"][PEER].append(10.0)
    add_earlier(found, path)
    return found


def test_a_row_from_an_earlier_run_shows_its_version(results: Results) -> None:
    header, (old, new) = lines([BENCHMARK], results, [OURS, PEER])
    assert header[2:5] == [OURS, PEER, "durable ÷ Kafka"]
    assert old[2:5] == ["2", f"4 ({VERSION})", "0.50 ×"]
    assert old[-2:] == ["2", "50% / 0%"]
    assert new[2:5] == ["5", "10", "0.50 ×"]
