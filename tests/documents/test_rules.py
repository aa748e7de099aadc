"""The rules of the documents themselves: a page that breaks one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.pages import PageError, parse
from tests.documents.running import DocumentError, RunningPage, console_commands, matches


def page_of(*blocks: str) -> str:
    return "# Page\n\n" + "\n\n".join(block.replace("'''", "```") for block in blocks) + "\n"


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (["'''\nx\n'''"], "p.md:3: a block of no language is not run"),
        (["'''toml\nx\n'''"], "a block of toml is not run"),
        (["Words.", "'''text\nx\n'''"], "a block of text is not run"),
        (["<!-- not run: -->\n'''python\nx\n'''"], "say why"),
        (["<!-- slow -->\n'''python\nx\n'''"], "'slow' is no marker"),
        (["<!-- continues -->\n'''python\nx\n'''"], "continues nothing"),
        (["<!-- file: a.csv -->\n'''csv\nx\n'''"], "no program of the page uses a.csv"),
        (["'''python\nx"], "does not end"),
    ],
)
def test_a_block_without_a_test_is_found(blocks: list[str], message: str) -> None:
    with pytest.raises(PageError, match=message):
        parse("p.md", page_of(*blocks))


def test_the_marks_of_a_pages_blocks() -> None:
    page = parse(
        "p.md",
        page_of(
            "'''python\na = 1\n'''",
            "'''text\none\n'''",
            "<!-- continues -->\n'''python\nb = 2\n'''",
            "'''text\ntwo\n'''",
            "<!-- not run: a signature -->\n'''python\nf(x)\n'''",
            "<!-- file: a.csv -->\n'''csv\nx\n'''",
            "1. A list:\n\n   '''bash\n   cat a.csv\n   '''",
        ),
    )
    assert [program.text for program in page.programs] == ["a = 1\n\nb = 2\n", "cat a.csv\n"]
    assert [program.output for program in page.programs] == ["one\ntwo\n", None]
    assert [block.file_name for block in page.files] == ["a.csv"]
    assert len(page.not_run) == 1


def test_a_page_may_mark_all_blocks_as_not_run() -> None:
    text = page_of(
        "<!-- no block of this page is run: it is generated -->", "'''\nx\n'''", "'''bash\nx\n'''"
    )
    page = parse("p.md", text)
    assert (page.programs, len(page.not_run)) == ([], 2)


def test_commands_and_what_they_print() -> None:
    text = "$ echo a \\\n  b\na b\n$ true\n$ echo c\nc\n"
    assert list(console_commands(text)) == [
        ("echo a \\\n  b", "a b\n"),
        ("true", ""),
        ("echo c", "c\n"),
    ]
    assert matches("took … ms\n", "took 12 ms  \n")
    assert not matches("took … ms\n", "took 12 s\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("'''python\nraise SystemExit(3)\n'''", "p.md:3 ended with status 3"),
        ("'''python\nprint(1)\n'''\n\n'''text\n2\n'''", "it printed:\n1"),
        ("'''bash\nfalse | true\n'''", "ended with status 1"),
        ("'''console\n$ echo 1\n1\n$ echo 2\n3\n'''", "echo 2"),
        ("'''python\ndef test_a():\n    assert 1 == 2\n'''", "1 failed"),
    ],
)
def test_a_program_with_other_output_is_found(block: str, message: str, tmp_path: Path) -> None:
    with (
        RunningPage(parse("p.md", page_of(block)), tmp_path) as running,
        pytest.raises(DocumentError, match=message),
    ):
        running.run_all()


@pytest.mark.process
def test_a_page_that_starts_its_own_broker(tmp_path: Path) -> None:
    text = page_of(
        "'''bash\nsharegroup serve -o num.partitions=3\n'''",
        "'''console\n$ sharegroup topics create t\nt created, 3 partitions\n'''",
    )
    with RunningPage(parse("p.md", text), tmp_path) as running:
        running.run_all()
