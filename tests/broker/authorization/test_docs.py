"""The page on authorisation says what every API needs, and its example of a file is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.authorization.acl_file import COLUMNS, parse_acls
from sharegroup.broker.authorization.resources import Operation, ResourceType
from sharegroup.broker.configs.broker import load
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.model.acl import with_a_meaning

PAGE = (Path(__file__).parents[3] / "docs" / "authorization.md").read_text()


def block_with(text: str) -> str:
    """The example on the page that has ``text`` in it."""
    found = next(block for block in PAGE.split("```")[1::2] if text in block)
    return found.partition("\n")[2]  # the first line is the language


@pytest.mark.parametrize("api", sorted(row.api.name for row in API_TABLE.values()))
def test_every_api_has_its_row(api: str) -> None:
    table = PAGE.partition("## What each request needs")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    assert any(api in [name.strip() for name in row.split(",")] for row in rows)


def test_the_example_of_a_file_can_be_read() -> None:
    acls = parse_acls(block_with(",".join(COLUMNS)), "the page")
    assert [acl.allow for acl in acls] == [True, True, True, False]


def test_the_example_of_settings_can_be_read() -> None:
    config = load(block_with("listener.principal.map"))
    assert config.principals == {"ADMIN": "User:admin"}
    assert len(config.listeners) == 2
    assert not config.warnings


def test_every_word_of_an_acl_is_on_the_page() -> None:
    for word in (*with_a_meaning(Operation), *with_a_meaning(ResourceType)):
        assert f"`{word.name}`" in PAGE
