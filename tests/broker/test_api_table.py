"""The table of APIs is whole: each row can be handled, and the page says what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.model.errors import UnknownServerError
from sharegroup.wire.apis import APIS
from sharegroup.wire.codec import encode

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("key", sorted(API_TABLE))
def test_each_api_can_be_handled_and_can_fail_at_every_version(key: int) -> None:
    row = API_TABLE[key]
    assert callable(row.handler)
    for version in range(row.versions.first, row.versions.last + 1):
        refused = row.failure(row.api.request(), UnknownServerError())
        if refused is not None:
            encode(refused, version)


def test_every_known_api_is_served() -> None:
    assert set(APIS) == set(API_TABLE)


def test_the_page_of_apis_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "docs_apis.py"))["page"]()
    assert (ROOT / "docs" / "apis.md").read_text() == page
