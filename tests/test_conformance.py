"""docs/conformance.md says the truth: the tests it names exist, and no scenario is left out."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from scripts import docs_conformance
from scripts.docs_conformance import Scenario

ROOT = Path(__file__).parents[1]
TABLES = docs_conformance.tables()


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions of a file: ``test_name``, or ``TestClass::test_name``."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        owner = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for item in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(owner + item.name)
            elif isinstance(item, ast.Assign):  # hypothesis: TestMachine = Machine.TestCase
                found |= {owner + t.id for t in item.targets if isinstance(t, ast.Name)}
    return frozenset(name for name in found if name.split("::")[-1].lower().startswith("test"))


def wrong(scenario: Scenario) -> list[str]:
    """What is wrong with a row."""
    problems = []
    if not scenario.tests and not scenario.note:
        problems.append(f"{scenario.name}: neither a test nor a note")
    for test in scenario.tests:
        file, _, name = test.partition("::")
        path = ROOT / file
        if not path.is_file() or name.split("[")[0] not in functions_of(path):
            problems.append(f"{scenario.name}: there is no {test}")
    return problems


@pytest.mark.parametrize("name", TABLES)
def test_every_scenario_has_a_test_or_a_reason(name: str) -> None:
    assert [problem for scenario in TABLES[name] for problem in wrong(scenario)] == []


@pytest.mark.parametrize("name", TABLES)
def test_no_scenario_is_listed_twice(name: str) -> None:
    names = [scenario.name for scenario in TABLES[name]]
    assert names
    assert len(names) == len(set(names))


def test_mistakes_are_found() -> None:
    assert wrong(Scenario("a", ("tests/test_conformance.py::test_mistakes_are_found",), "")) == []
    assert wrong(Scenario("a", (), "no purgatory here")) == []
    assert wrong(Scenario("a", (), "")) == ["a: neither a test nor a note"]
    missing = Scenario(
        "a", ("tests/test_conformance.py::test_not_there", "tests/no.py::test_b"), ""
    )
    assert len(wrong(missing)) == 2


def test_the_page_is_up_to_date() -> None:
    assert docs_conformance.PAGE.read_text() == docs_conformance.page(), "make docs"
