"""`make release`: what it says of texts and files. The release itself is not made here."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest

import sharegroup
from scripts.release.artifacts import LIBRARY, wheel_problems
from scripts.release.running import Commands, ReleaseError
from scripts.release.texts import UNRELEASED, Texts
from scripts.release.trial import first_lines

ROOT = Path(__file__).resolve().parent.parent


def test_the_texts_of_this_repository_agree() -> None:
    texts = Texts.of(ROOT)
    assert texts.version == sharegroup.__version__ == texts.newest
    released = [title for title in texts.entries if title != UNRELEASED]
    assert released[0] == texts.version
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", title) for title in released)


def test_texts_that_do_not_agree_are_found() -> None:
    entry = {"0.2.0": "* New."}
    assert Texts("0.2.0", "0.2.0", entry).disagreements() == []
    assert Texts("0.2.0", "0.1.0", entry).disagreements() == [
        "the package is 0.2.0, and docs/versions.md names '0.1.0'"
    ]
    assert Texts("0.2.0", "0.2.0", {UNRELEASED: "* Newer.", **entry}).disagreements() == [
        "the package is 0.2.0, and the top entry of CHANGELOG.md is 'Unreleased'"
    ]


def test_the_notes_are_the_entry_of_the_changelog() -> None:
    entries = {"0.2.0": "### Errors\n\n* New.", "0.1.0": "* First."}
    assert Texts("0.2.0", "0.2.0", entries).notes() == (
        "# sharegroup 0.2.0\n\n### Errors\n\n* New.\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a-1-py3-none-any.whl", {LIBRARY: b""}, f"its libraries are ['{LIBRARY}']"),
        ("a-1-py3-none-linux_x86_64.whl", {}, "its libraries are []"),
        ("a-1-py3-none-any.whl", {"tests/test_a.py": b""}, "tests/test_a.py is not of the package"),
        ("a-1-py3-none-any.whl", {}, "sharegroup/py.typed is missing"),
        ("a-1-py3-none-any.whl", {}, "RECORD is missing"),
        ("a-1-py3-none-any.whl", {"a.dist-info/x": str(ROOT).encode()}, f"x names {ROOT}"),
        (
            "a-1-py3-none-linux_x86_64.whl",
            {LIBRARY: b"\0/build/me/walk.c\0"},
            f"{LIBRARY} names /build/me/walk.c",
        ),
    ],
)
def test_a_wheel_that_is_not_as_it_should_be_is_found(
    name: str, content: dict[str, bytes], problem: str, tmp_path: Path
) -> None:
    wheel = tmp_path / name
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    assert [found for found in wheel_problems(wheel, ROOT) if found.endswith(problem)]


def test_what_is_tried_needs_no_extra_and_starts_its_own_broker() -> None:
    programs = first_lines().programs
    assert "sharegroup serve" in programs[0].text
    assert len([program for program in programs if program.output]) >= 2
    assert any("ShareConsumer" in program.text for program in programs)


@pytest.mark.process
def test_a_command_that_fails_or_does_not_end_is_said_in_a_sentence(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log.txt")

    def run(code: str, within_s: float = 60) -> str:
        command = [sys.executable, "-c", code]
        return commands.run(command, within_s=within_s, cwd=tmp_path, env={})

    assert run("print(1)") == "1\n"
    assert run("print(2)") == "2\n"
    with pytest.raises(ReleaseError, match=r"failed: see .*log\.txt$"):
        run("raise SystemExit('no')")
    assert "no\n" in (tmp_path / "log.txt").read_text()
    with pytest.raises(ReleaseError, match="took over 0 s"):
        run("input()", within_s=0)
