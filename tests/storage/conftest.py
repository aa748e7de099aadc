"""The stores that the contract tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.implementations import ALL, LOCAL, Folders


@pytest.fixture(params=ALL.values(), ids=ALL.keys())
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Folders:
    disk, seen = request.param
    return Folders(disk(), str(tmp_path / "data"), seen)


@pytest.fixture(params=LOCAL.values(), ids=LOCAL.keys())
def local_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Folders:
    disk, seen = request.param
    return Folders(disk(), str(tmp_path / "data"), seen)
