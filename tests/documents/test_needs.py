"""A Python block that needs the shell's block before it says so."""

from __future__ import annotations

import re

import pytest

from tests.documents.pages import ROOT, Block, Page, all_pages

_MADE = re.compile(
    r"sharegroup (?:topics create|groups set|produce) +([\w.-]+)"
    r"|(sharegroup serve\b)|for topic in ([^;]+);"
)


def needed(page: Page) -> list[tuple[Block, str]]:
    """Python that uses what the shell's blocks right before it have made, and what that is."""
    found = []
    shell = ""
    for block in page.programs:
        if block.language != "python":
            shell += block.text
            continue
        made = {
            name
            for topic, serve, several in _MADE.findall(shell)
            for name in (topic, *several.split(), "127.0.0.1:9092" if serve else "")
            if name
        }
        shell = ""
        used = [name for name in sorted(made) if f'"{name}"' in block.text]
        if used:
            found.append((block, used[0]))
    return found


NEEDED = [(page.name, *each) for page in all_pages() for each in needed(page)]


def test_there_are_such_blocks() -> None:
    pages = {"docs/authorization.md", "docs/keys.md", "docs/spark.md"}
    assert pages <= {name for name, _, _ in NEEDED}


@pytest.mark.parametrize(
    ("name", "block", "made"), [pytest.param(*each, id=each[1].place) for each in NEEDED]
)
def test_a_block_names_the_block_that_it_needs(name: str, block: Block, made: str) -> None:
    lines = (ROOT / name).read_text().splitlines()[: block.line - 1]
    fence = max(at for at, line in enumerate(lines) if line.strip() == "```")
    said = " ".join(lines[fence + 1 :])
    assert "the block above" in said, (
        f"{block.place} needs {made}, which the shell's block before it has made: write so before "
        "it, such as 'with the topic of the block above'"
    )
