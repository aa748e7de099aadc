"""The code blocks of a page, and what the page says of each: the rules of CONTRIBUTING.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RUN = ("python", "bash", "console")
"""Languages of blocks that are run. ``text`` after one of them is what it prints."""
_FENCE = re.compile(r"(?P<indent> *)```(?P<language>[\w+-]*)\s*")
_MARKER = re.compile(r"<!--\s*(?P<text>.*?)\s*-->")
_NOT_RUN = "not run:"
_PAGE_NOT_RUN = "no block of this page is run:"
_FILE = "file:"


class PageError(Exception):
    """A block that breaks the rules; the text says which, where, and what to write."""


@dataclass(slots=True)
class Block:
    """One fenced block.

    Attributes:
        line: of its first fence, from 1.
        marker: the text of the comment before it, or ''.
        output: what the page shows that it prints; None: it does not say.
    """

    page: str
    line: int
    language: str
    text: str
    marker: str = ""
    output: str | None = None

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page}:{self.line}"

    @property
    def file_name(self) -> str:
        """The name under which the reader saves it; '': it is no file."""
        return self.marker.removeprefix(_FILE).strip() if self.marker.startswith(_FILE) else ""

    @property
    def continues(self) -> bool:
        """It is the rest of the program before it."""
        return self.marker == "continues"

    @property
    def is_pytest(self) -> bool:
        """Tests, which pytest runs."""
        return self.language == "python" and bool(re.search(r"^def test_", self.text, re.M))


@dataclass(slots=True)
class Page:
    """A page: programs in their order, and files that they need."""

    name: str
    programs: list[Block] = field(default_factory=list)
    files: list[Block] = field(default_factory=list)
    not_run: list[Block] = field(default_factory=list)

    @property
    def needs_spark(self) -> bool:
        """A program on it runs PySpark."""
        return any("pyspark" in program.text for program in self.programs)


def all_pages() -> list[Page]:
    """Every page of the project."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [parse(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def parse(name: str, text: str) -> Page:
    """Raises PageError: a block is neither run nor marked with a reason, or a marker is unknown."""
    page = Page(name)
    if re.search(rf"^<!--\s*{_PAGE_NOT_RUN}\s*\S.*-->$", text, re.M):
        page.not_run = [block for block, _ in _blocks(name, text)]
        return page
    before: Block | None = None  # the block that a `text` block would be the output of
    for block, alone in _blocks(name, text):
        if block.marker.startswith(_NOT_RUN):
            _check_reason(block)
            page.not_run.append(block)
            before = None
        elif block.file_name:
            page.files.append(block)
            before = None
        elif block.language == "text" and before is not None and not alone:
            before.output = (before.output or "") + block.text
        elif block.language in RUN:
            before = _add_program(page, block)
        else:
            raise PageError(
                f"{block.place}: a block of {block.language or 'no language'} is not run: write "
                f"<!-- {_NOT_RUN} why --> before it, or name its language ({', '.join(RUN)})"
            )
    _check_files(page)
    return page


def _add_program(page: Page, block: Block) -> Block:
    if block.continues:
        if not page.programs or page.programs[-1].language != block.language:
            raise PageError(f"{block.place} continues nothing: no {block.language} is before it")
        first = page.programs[-1]
        first.text += f"\n{block.text}"
        return first
    if block.marker:
        raise PageError(f"{block.place}: {block.marker!r} is no marker; see CONTRIBUTING.md")
    page.programs.append(block)
    return block


def _check_reason(block: Block) -> None:
    if len(block.marker.removeprefix(_NOT_RUN).split()) < 2:
        raise PageError(f"{block.place}: say why it is not run: <!-- {_NOT_RUN} why -->")


def _check_files(page: Page) -> None:
    for block in page.files:
        if not any(block.file_name in program.text for program in page.programs):
            raise PageError(f"{block.place}: no program of the page uses {block.file_name}")


def _blocks(name: str, text: str) -> list[tuple[Block, bool]]:
    """Each block, and whether there is anything between the one before and it."""
    found: list[tuple[Block, bool]] = []
    block: Block | None = None
    marker, alone, indent = "", True, ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.fullmatch(line)
        if block is not None:
            if line.strip() == "```":
                found.append((block, alone))
                block, marker, alone = None, "", False
            else:
                block.text += f"{line.removeprefix(indent)}\n"
        elif fence is not None:
            indent = fence["indent"]
            block = Block(name, number, fence["language"], "", marker)
        elif line.strip():
            comment = _MARKER.fullmatch(line.strip())
            marker = comment["text"] if comment is not None else ""
            alone = True
    if block is not None:
        raise PageError(f"{block.place}: the block does not end")
    return found
