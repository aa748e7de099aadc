"""Public names do not change unseen: docs/public-names.txt is what the sources say."""

from __future__ import annotations

from importlib import import_module

import pytest

from scripts import docs_public_names
from scripts.docs_public_names import FILE, MODULES, OUR_TAGS_FROM

WRITTEN = FILE.read_text(encoding="utf-8")


def section(title: str) -> list[str]:
    """The lines of one section of the file."""
    _, _, rest = WRITTEN.partition(f"\n[{title}]\n")
    return rest.partition("\n\n")[0].splitlines()


def test_the_file_is_what_the_sources_say() -> None:
    assert docs_public_names.text() == WRITTEN, (
        "public names have changed: run `make docs`, look at the difference, and read "
        "docs/versions.md on what a release may change"
    )


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_of_a_module_is_there(name: str) -> None:
    module = import_module(name)
    assert section(name) == sorted(module.__all__)
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


def test_no_tag_of_ours_stands_twice_in_one_message() -> None:
    lines = [
        line.split()
        for title in ("tagged fields in requests and answers", "tagged fields in internal topics")
        for line in section(title)
    ]
    places = [(name.rpartition(".")[0], tag) for name, tag, _ in lines]
    assert len(places) > 20
    assert len(set(places)) == len(places)
    assert all(int(tag) >= OUR_TAGS_FROM for _, tag in places)
