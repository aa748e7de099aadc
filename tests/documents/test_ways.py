"""docs/ways.md names files and functions that exist, callers that call them, and right numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.documents.pages import ROOT

PAGE = ROOT / "docs" / "ways.md"
SOURCE = ROOT / "src" / "sharegroup"
PAGES = ("architecture.md", "decisions.md", "ways.md")
"""The pages on which every file that is named exists."""

OUTSIDE = "–"
"""Called from outside the table."""

_HEADING = re.compile(r"## (?P<name>[A-Z][\w -]*): (?P<hops>\d+) hops")
_HOP = re.compile(
    r"\| (?P<number>\d+) \| (?P<called_by>[^|]+) \| `(?P<path>[^`|]+)` \| (?P<names>[^|]+) \|"
)
_CALLER = re.compile(r"(?:(?P<way>[A-Z][\w -]*) )?(?P<number>\d+)(?: as `(?P<name>\w+)`)?")
_SUM = re.compile(
    r"\| (?P<name>[A-Z][\w -]*) \| (?P<own>\d+) \| (?P<parts>[^|]+) \| (?P<hops>\d+) \|"
)
_PART = re.compile(r"(?:(?P<times>\d+) × )?(?P<name>[A-Z][\w -]*)")
_NAMED = re.compile(r"`([\w./-]+(?:\.py|\.c|/))`")


class Hop(NamedTuple):
    """A row of a way: a call into another file. ``functions`` has more than one name where either
    may be called."""

    number: int
    called_by: str
    path: str
    functions: tuple[str, ...]


class Way(NamedTuple):
    """A table; ``stated`` is the number of hops in its heading."""

    name: str
    stated: int
    hops: list[Hop]


class Sum(NamedTuple):
    """A row of the table of all ways. ``parts``: how often the hops of which ways are counted."""

    name: str
    own: int
    parts: list[tuple[int, str]]
    hops: int


def ways() -> list[Way]:
    """The tables of the page, by their headings."""
    found: list[Way] = []
    for line in PAGE.read_text().splitlines():
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            found.append(Way(heading["name"], int(heading["hops"]), []))
        elif (row := _HOP.match(line)) is not None:
            names = tuple(re.findall(r"`([^`]+)`", row["names"]))
            hop = Hop(int(row["number"]), row["called_by"].strip(), row["path"], names)
            found[-1].hops.append(hop)
        else:
            assert not re.match(r"\| *\d+ *\|", line), f"{line!r} is no hop"
            assert not re.match(r"#.* hops$", line), f"{line!r} begins no way"
    return found


def sums() -> Iterator[Sum]:
    """The rows of the table of all ways."""
    for line in PAGE.read_text().splitlines():
        row = _SUM.match(line)
        if row is not None:
            parts = [(int(one["times"] or 1), one["name"]) for one in _parts(row["parts"])]
            yield Sum(row["name"], int(row["own"]), parts, int(row["hops"]))


def _parts(text: str) -> Iterator[re.Match[str]]:
    if text.strip() == "nothing":
        return
    for each in text.split(","):
        part = _PART.fullmatch(each.strip())
        assert part is not None, f"{each!r} names no way"
        yield part


WAYS = {way.name: way for way in ways()}
EACH_WAY = pytest.mark.parametrize("way", [*WAYS.values()], ids=[*WAYS])


@cache
def text_of(path: str) -> str:
    """The text of a file of ours."""
    return (SOURCE / path).read_text()


@cache
def defined_in(path: str) -> frozenset[str]:
    """The functions and classes of a file; methods with the name of their class."""
    return frozenset(_defined(ast.parse(text_of(path)), ""))


def _defined(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name
        elif isinstance(child, ast.ClassDef):
            yield prefix + child.name
            yield from _defined(child, f"{prefix}{child.name}.")


def test_the_page_has_the_ways_that_it_promises() -> None:
    assert {
        "In", "Out", "Log", "Produce", "Fetch", "Share fetch", "Acknowledge", "Join", "Transaction",
        "Spark micro-batch",
    } <= set(WAYS)  # fmt: skip
    assert {each.name for each in sums()} == set(WAYS) - {"In", "Out", "Log"}


@EACH_WAY
def test_the_files_and_functions_exist(way: Way) -> None:
    missing = [
        f"{hop.number}: {hop.path}: {name}"
        for hop in way.hops
        for name in hop.functions or ("no function is named",)
        if not (SOURCE / hop.path).is_file() or name not in defined_in(hop.path)
    ]
    assert missing == []


@EACH_WAY
def test_each_caller_is_another_file_that_names_the_function(way: Way) -> None:
    assert [fault for hop in way.hops for fault in _faults_of_caller(way, hop)] == []


def _faults_of_caller(way: Way, hop: Hop) -> Iterator[str]:
    if hop.called_by == OUTSIDE:
        return
    caller = _CALLER.fullmatch(hop.called_by)
    assert caller is not None, f"{way.name} {hop.number}: {hop.called_by!r} is no row"
    path = WAYS[caller["way"] or way.name].hops[int(caller["number"]) - 1].path
    if path == hop.path:
        yield f"{hop.number} stays in {path}"
    called = [caller["name"]] if caller["name"] else [one.split(".")[-1] for one in hop.functions]
    for name in called:
        if re.search(rf"\b{name}\b", text_of(path)) is None:
            yield f"{hop.number}: {path} does not name {name}"


@EACH_WAY
def test_the_hops_of_a_way_are_counted(way: Way) -> None:
    assert [hop.number for hop in way.hops] == list(range(1, way.stated + 1))


@pytest.mark.parametrize("each", [*sums()], ids=lambda each: each.name)
def test_the_hops_of_all_parts_are_summed(each: Sum) -> None:
    assert each.own == len(WAYS[each.name].hops)
    rest = sum(times * len(WAYS[name].hops) for times, name in each.parts)
    assert each.hops == each.own + rest


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    named = set(_NAMED.findall((ROOT / "docs" / page).read_text()))
    assert named
    missing = {name for name in named if not any(map(Path.exists, _places(name)))}
    assert not missing


def _places(name: str) -> tuple[Path, Path]:
    return SOURCE / name, ROOT / name
