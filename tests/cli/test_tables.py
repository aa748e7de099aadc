"""Tables on a pipe."""

from __future__ import annotations

import json

import pytest

from sharegroup.cli.tables import print_rows

ROWS = [{"group_name": "g" * 150, "lag": 12, "more": 1}, {"group_name": "h", "lag": None}]


def test_unknown_values_are_dashes_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(ROWS, ("group_name", "lag"))
    title, _, first, second = capsys.readouterr().out.splitlines()
    assert title.split() == ["group", "name", "lag"]
    assert first.split() == ["g" * 150, "12"]
    assert second.split() == ["h", "-"]
    assert first.rindex("12") + 2 == second.rindex("-") + 1, "numbers are to the right"


def test_json_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ("group_name", "lag"), as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
