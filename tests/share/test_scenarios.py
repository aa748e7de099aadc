"""Apache Kafka's scenarios of a share partition (class SharePartitionTest), each in a few lines.

The steps stand in the text files of ``scenarios/``, one file a theme; :mod:`tests.share.script`
explains them. Names are those of Kafka's tests; ``docs/conformance.md`` lists them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.share.script import Script, scenarios

SCENARIOS = scenarios()
TABLE = Path(__file__).parents[1] / "conformance" / "SharePartitionTest.csv"


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    Script().play(SCENARIOS[name])


def test_the_conformance_table_names_scenarios_that_exist_and_all_of_them() -> None:
    with TABLE.open(newline="") as file:
        tests = [test for row in csv.DictReader(file) for test in row["covered_by"].split(";")]
    here = f"tests/share/{Path(__file__).name}::test_scenario["
    named = {test.strip()[len(here) : -1] for test in tests if test.strip().startswith(here)}
    assert named == {name for name in SCENARIOS if "-test" in name}


@pytest.mark.parametrize(
    "steps",
    [
        ["read 0-4 -> 0-3*1"],
        ["expect start=1"],
        ["read 0-4 -> 0-4*1", "shape 0-4:available*1"],
    ],
)
def test_a_wrong_expectation_is_found(steps: list[str]) -> None:
    with pytest.raises(AssertionError, match=steps[-1].split()[0]):
        Script().play(steps)


def test_an_acknowledgement_that_was_not_refused_is_found() -> None:
    with pytest.raises(pytest.fail.Exception):
        Script().play(["read 0-4 -> 0-4*1", "ack 0-4 accept refused not-acquired"])
