"""Two machines, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sharegroup_server import SharegroupServer


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("source")) as running:
        yield running


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("target")) as running:
        yield running
