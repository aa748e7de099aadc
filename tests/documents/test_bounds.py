"""The table of what a client can make grow names bounds that there are."""

from __future__ import annotations

import re
from pathlib import Path

from sharegroup.broker.configs.broker import BROKER_CONFIGS
from sharegroup.model import limits
from sharegroup.model.errors import ERRORS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
NO_SETTINGS = {"other"}


def rows() -> list[list[str]]:
    """The cells of each row."""
    section = PAGE.read_text(encoding="utf-8").split("## What a client can make grow", 1)[1]
    table = section.split("\n## ", 1)[0]
    found = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return found[2:]


def test_each_bound_is_a_limit_or_a_setting() -> None:
    errors = {error.name for error in ERRORS.values() if error is not None}
    known = {*vars(limits), *BROKER_CONFIGS, *errors, *NO_SETTINGS}
    assert len(rows()) > 25
    for row in rows():
        assert len(row) == 3
        bounds = re.findall(r"`([^`]+)`", row[1])
        assert bounds or "none" in row[1] or "one for each" in row[1] or "there are" in row[1]
        for name in (*bounds, *re.findall(r"`([^`]+)`", row[2])):
            assert name in known, f"{name} is no limit, setting or error"
