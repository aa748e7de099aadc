"""The table of benchmarks says which Apache Kafka each row was measured on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import reasons
from benchmarks.benchmark import Benchmark, Row
from benchmarks.registry import BENCHMARKS
from benchmarks.report import MISSING, WORSE, add_earlier, lines, once_only
from benchmarks.runner import Results
from benchmarks.systems import EARLIER_PEERS, OURS, PEER, SYSTEMS
from scripts import docs_benchmarks

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
    assert old[-3:] == ["2", "50% / 0%", ""]
    assert new[2:5] == ["5", "10", "0.50 ×"]


def test_a_row_that_is_worse_says_why_and_one_that_is_not_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Results()
    found.samples["old"].update({OURS: [3.0], PEER: [2.0]})
    found.samples["new"].update({OURS: [1.0], PEER: [2.0]})
    monkeypatch.setattr(reasons, "REASONS", {"o*": ("it waits", ""), "new": ("it waits", "")})
    _, (old, new) = lines([BENCHMARK], found, [OURS, PEER])
    assert (old[4], old[-1]) == ("1.50 × (worse)", "it waits")
    assert (new[4], new[-1]) == ("0.50 ×", "")
    assert once_only([BENCHMARK], found, [OURS, PEER]) == ["two rows"]


def test_the_page_is_that_of_the_samples_and_each_row_has_some() -> None:
    page = docs_benchmarks.current()
    assert docs_benchmarks.DOCS.joinpath("benchmarks.md").read_text() == page, "make docs"
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("|")]
    for title, _, *cells, why in rows[2:]:
        assert {cell.strip() for cell in cells[: len(SYSTEMS)]} != {MISSING}, f"{title} is empty"
        assert any(WORSE in cell for cell in cells) == bool(why.strip()), title


def test_each_reason_is_about_a_row() -> None:
    keys = {row.key for benchmark in BENCHMARKS for row in benchmark.rows}
    assert list(reasons.without_row(keys)) == []
