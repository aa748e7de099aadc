"""The floors that pages show are those of the import contracts in pyproject.toml. What no import
contract can say about rooms is checked here."""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

import pytest

from tests.documents.pages import ROOT

Floors: TypeAlias = list[set[str]]
"""The rooms of each floor, from the top."""

_ROOM = re.compile(r"\| (?P<floor>\d+) \| `(?P<room>\w+)` \|")
_CHAIN = re.compile(r"[a-z_]+(?:(?:,| →) [a-z_]+)+")


def contract(name: str) -> Floors:
    """The layers of a contract; those in parentheses need not be there, and are left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (found,) = (each for each in contracts if each["id"] == name)
    floors = [set(layer.split(" | ")) for layer in found["layers"]]
    there = [{room for room in floor if not room.startswith("(")} for floor in floors]
    return [floor for floor in there if floor]


def table(heading: str) -> list[tuple[int, str]]:
    """Floor and room of each row below a heading of the map."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    (section,) = (part for part in page.split("\n## ") if part.startswith(f"{heading}\n"))
    return [(int(row["floor"]), row["room"]) for row in _ROOM.finditer(section)]


@pytest.mark.parametrize(("heading", "name"), [("The house", "layers"), ("The broker", "broker")])
def test_the_map_has_the_floors_of_the_contract(heading: str, name: str) -> None:
    floors = contract(name)
    assert sorted(table(heading)) == sorted(
        (len(floors) - at, room) for at, floor in enumerate(floors) for room in floor
    )


def test_contributing_has_the_layers_of_the_contract() -> None:
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    (chain,) = (line for line in lines if "→" in line and _CHAIN.fullmatch(line))
    assert [set(floor.split(", ")) for floor in chain.split(" → ")] == contract("layers")


def test_only_coordination_writes_to_logs_unchecked() -> None:
    """``broker/topics.py`` and ``broker/assembly.py`` pass the logs on to it."""
    broker = ROOT / "src" / "sharegroup" / "broker"
    own = {broker / "topics.py", broker / "assembly.py"}
    knowing = [
        str(path)
        for path in broker.rglob("*.py")
        if path.parent.name != "coordination" and path not in own
        if re.search(r"TrustedLog|append_trusted|internal_log\(|encode_marker", path.read_text())
    ]
    assert knowing == []
