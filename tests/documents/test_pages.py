"""Every code block of every page runs as a fresh program, or the page says why it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.pages import Page, all_pages
from tests.documents.running import RunningPage

PAGES = all_pages()


def stage(page: Page) -> pytest.ParameterSet:
    mark = pytest.mark.spark if page.needs_spark else pytest.mark.process
    return pytest.param(page, marks=[mark, pytest.mark.xdist_group(page.name)], id=page.name)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [stage(page) for page in PAGES if page.programs])
def test_a_page(page: Page, tmp_path: Path) -> None:
    with RunningPage(page, tmp_path) as running:
        running.run_all()
