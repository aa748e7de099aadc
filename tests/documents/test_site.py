"""The documents as a site: every page is in its navigation, and every link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.site import OUTSIDE, ROOT, lay, led, name_of

GENERATED = {
    *("apis.md", "benchmarks.md", "cli.md", "compatibility.md", "configuration.md"),
    *("conformance.md", "metrics.md", "public-names.md", "spark-options.md", "window.md"),
}


def navigation() -> list[Any]:
    found = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert isinstance(found, list)
    return found


def leaves(entry: Any) -> Iterator[str]:
    """The pages that are named in a part of the navigation, at any depth."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from leaves(below)


def test_the_navigation_names_every_page_once() -> None:
    pages = {*OUTSIDE.values(), "public-names.md"}
    pages |= {path.name for path in (ROOT / "docs").glob("*.md")}
    assert sorted(leaves(navigation())) == sorted(pages)


def test_generated_pages_stand_apart() -> None:
    [section] = [part for part in navigation() if "Written from the sources" in part]
    assert {*leaves(section)} == GENERATED


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [
        path
        for path in [*OUTSIDE, *(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))]
        if f"]({path.removeprefix('docs/')})" not in index
        and f"](../{path})" not in index
        and path != "docs/index.md"
    ]
    assert missing == []


def test_links_that_leave_the_docs_are_led() -> None:
    assert led("[a](../README.md#why)", "docs/b.md") == "[a](start.md#why)"
    assert led("[a](docs/b.md) ![c](docs/c.png)", "README.md") == "[a](b.md) ![c](c.png)"
    assert led("[a](../examples/worker.py)", "docs/b.md") == "[a](source/examples/worker.py.txt)"
    assert led("[a](b.md#c) [d](#e)", "docs/f.md") == "[a](b.md#c) [d](#e)"
    assert led("[a](https://example.com/b.md)", "docs/f.md") == "[a](https://example.com/b.md)"
    assert name_of("docs/public-names.txt") == "public-names.md"


def test_every_link_leads_to_a_file(tmp_path: Path) -> None:
    assert lay(tmp_path) == []
    assert (tmp_path / "source" / "examples" / "worker.py.txt").is_file()


@pytest.mark.process
def test_the_site_is_built_without_a_warning_or_anything_of_others() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "site.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "build" / "site" / "start.html").read_text()
    loaded = [line for line in page.splitlines() if "<script src=" in line or "<link rel=" in line]
    assert loaded
    assert [
        line for line in loaded if 'src="http' in line or 'stylesheet" href="http' in line
    ] == []
