"""Seeds find faults that are planted in a copy of the broker (docs/correctness.md has them all)."""

from __future__ import annotations

import pytest

from scripts.planted_faults import BEGIN, END, PAGE, PLANTED, ROOT, Planted, changed, search
from sharegroup.check.judge import judged
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: one.name)
def test_the_place_is_there(planted: Planted) -> None:
    text = (ROOT / "src" / "sharegroup" / planted.file).read_text()
    assert changed(planted, text) != text


def test_the_page_has_them_all() -> None:
    table = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    missing = [one.name for one in PLANTED if f"| {one.what} | `{one.file}` |" not in table]
    assert not missing, "run scripts/planted_faults.py --write-docs"


@pytest.mark.parametrize("name", ["count-stands-still", "limit-off-by-one", "aborted-delivered"])
def test_a_seed_finds_it(name: str) -> None:
    (planted,) = [one for one in PLANTED if one.name == name]
    found = search(planted)
    assert found.seed is not None, found.rules
    assert not judged(play(Plan.drawn(found.seed)).history).violations
