"""Seeds find faults that are planted in a copy of the broker (docs/correctness.md has them all)."""

from __future__ import annotations

import pytest

from scripts.planted_faults import BEGIN, END, PAGE, PLANTED, RARE, ROOT, Planted, changed, search
from sharegroup.check.judge import judged
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play


@pytest.mark.parametrize("planted", [*PLANTED, *RARE.values()], ids=lambda one: one.name)
def test_the_place_is_there(planted: Planted) -> None:
    text = (ROOT / "src" / "sharegroup" / planted.file).read_text()
    assert changed(planted, text) != text


def test_the_page_has_them_all() -> None:
    table = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    missing = [one.name for one in PLANTED if f"| {one.what} | `{one.file}` |" not in table]
    assert not missing, "run scripts/planted_faults.py --write-docs"


@pytest.mark.parametrize(
    "name",
    [
        "count-stands-still",
        "limit-off-by-one",
        "aborted-delivered",
        "lag-stays",
        "gap-fails-commit",
        "gap-committed",
    ],
)
def test_the_seed_of_the_page_finds_it(name: str) -> None:
    """Without the fault the same seed finds nothing."""
    (planted,) = [one for one in PLANTED if one.name == name]
    (row,) = [line for line in PAGE.read_text().splitlines() if f"| {planted.what} |" in line]
    seed = int(row.split("|")[3])
    found = search(planted, [f"seed={seed}"])
    assert (found.seed, found.rules.replace(",", ", ")) == (seed, row.split("|")[4].strip())
    nothing_is_wrong(f"seed={seed}")


@pytest.mark.parametrize("plan", RARE, ids=lambda _: "plan")
def test_a_rare_one(plan: str) -> None:
    assert search(RARE[plan], [plan]).seed is not None
    nothing_is_wrong(plan)


def nothing_is_wrong(plan: str) -> None:
    outcome = play(Plan.parsed(plan))
    assert not judged(outcome.history).violations
    assert not outcome.crashes
