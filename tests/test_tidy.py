"""The rules of the house that no linter knows. An exception to one stands here, with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "examples", "benchmarks", "scripts", "docs", ".ci", ".github")
TEXT = {"", ".css", ".html", ".js", ".lock", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
COLUMNS_MAX = 100
MODULE_NAMES_BANNED = {"common", "helpers", "manager", "misc", "util", "utils"}

# path of the file -> why the rule does not hold there
LONG_FILES: dict[str, str] = {
    "src/sharegroup/client/admin/admin.py": "a verb for each request; the docstring says why",
    "src/sharegroup/sync/admin.py": "written from client/admin/admin.py, verb by verb",
    "src/sharegroup/model/errors.py": "Kafka's table of errors",
}
LONG_FUNCTIONS: dict[str, str] = {}
WORDS_ALLOWED: dict[str, str] = {
    "tests/test_tidy.py": "spells the words that it looks for",
    "pyproject.toml": "tells ruff which names are banned",
}

PAST_THE_FAMILY = (
    r"\bos\.(fork|forkpty|posix_spawn\w*|spawn\w+|exec\w+|system|popen)\(|\bpty\.(fork|spawn)\("
    r"|\bmultiprocessing\b|\bProcessPoolExecutor\b|\benv -i\b"
)
"""A process that starts so has no name of a test's run, and would outlive it: see tests/servers."""

WORDS_BANNED = {
    r"\b(TODO|FIXME|XXX)\b": "finish it, or file an issue",
    r"unittest\.mock": "use a real object or a small fake",
    r"\btime\.sleep\(": "wait for the condition itself, with a deadline",
    r"\bassert True\b": "a test that cannot fail tests nothing",
    r"(?<![\w.~}>:$-])/(work|root|tmp|home)\b": "a path of somebody's machine",
    r"pypi\.org|pythonhosted\.org|maven\.apache\.org|repo1\.maven|npmjs\.(org|com)"
    r"|crates\.io|proxy\.golang\.org|deb\.debian\.org": "a registry's address: its client knows it",
}


@cache
def files() -> dict[str, str]:
    """Text of every file of ours, by its path from the root."""
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in sorted(found)
        if path.suffix in TEXT and "__pycache__" not in path.parts
    }


def python_files(under: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of the Python files whose path starts with ``under``."""
    for name, text in files().items():
        if name.endswith(".py") and name.startswith(under):
            yield name, text


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function in ``text``, methods and inner ones too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def may_have_long_functions(text: str) -> bool:
    """Whether a function may be too long: parsing every file takes many seconds. A function ends
    before the next function or class that is not indented deeper."""
    waiting: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = re.match(r" *(?=(async )?def |class )", line)
        if found is None:
            continue
        while waiting and waiting[-1][0] >= found.end():
            if number - waiting.pop()[1] > FUNCTION_LINES_MAX:
                return True
        waiting.append((found.end(), number))
    end = len(text.splitlines())
    return any(end - number >= FUNCTION_LINES_MAX for _, number in waiting)


def test_functions_are_short() -> None:
    long = [
        f"{name}:{function.lineno} {function.name}: {length} lines"
        for name, text in python_files()
        if may_have_long_functions(text)
        for function in functions(text)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
        and f"{name}:{function.name}" not in LONG_FUNCTIONS
    ]
    assert long == []


def test_files_are_short() -> None:
    lengths = {name: len(text.splitlines()) for name, text in python_files()}
    long = {name: length for name, length in lengths.items() if length > FILE_LINES_MAX}
    assert [name for name in long if name not in LONG_FILES] == []


def test_lines_are_short_where_ruff_does_not_look() -> None:
    long = [
        f"{name}:{number}"
        for name, text in files().items()
        if Path(name).suffix in {".sh", ""} and name != "LICENSE"
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > COLUMNS_MAX
    ]
    assert long == []


def test_modules_say_in_their_name_what_they_hold() -> None:
    parts = {name: set(Path(name).with_suffix("").parts) for name, _ in python_files()}
    assert [name for name, words in parts.items() if words & MODULE_NAMES_BANNED] == []


def test_modules_say_in_their_docstring_what_they_are() -> None:
    modules = [*python_files("src/"), *python_files("scripts/"), *python_files("examples/")]
    assert [name for name, text in modules if not re.match(r'(#.*\n|\s)*r?"""\S', text)] == []


@pytest.mark.parametrize("pattern", WORDS_BANNED)
def test_no_banned_words(pattern: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in files().items()
        if name not in WORDS_ALLOWED
        for match in re.finditer(pattern, text)
    ]
    assert found == [], WORDS_BANNED[pattern]


def test_no_test_starts_a_process_past_its_family() -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in python_files("tests/")
        if name not in WORDS_ALLOWED
        for match in re.finditer(PAST_THE_FAMILY, text)
    ]
    assert found == [], "start it by subprocess: tests/servers/family.py sees to its end"


def test_every_exception_is_still_needed() -> None:
    lengths = {name: len(text.splitlines()) for name, text in python_files()}
    assert [name for name in LONG_FILES if lengths.get(name, 0) <= FILE_LINES_MAX] == []
    assert [name for name in WORDS_ALLOWED if name not in files()] == []


def markdown() -> dict[str, str]:
    """Text of every page, without its code."""
    pages = {name: text for name, text in files().items() if name.endswith(".md")}
    return {
        name: re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.S) for name, page in pages.items()
    }


def anchors(page: str) -> set[str]:
    """The anchors that the headings of ``page`` make on the usual code hosts."""
    headings = re.findall(r"^#+ +(.+?) *$", page, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(name: str, page: str) -> Iterator[str]:
    """The relative links of one page that lead nowhere."""
    for link in re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        here = target.exists()
        if here and anchor and target.suffix == ".md":
            here = anchor in anchors(target.read_text())
        if not here:
            yield f"{name}: {link}"


def test_links_in_the_docs_lead_somewhere() -> None:
    assert [link for name, page in markdown().items() for link in broken_links(name, page)] == []


def test_every_page_has_one_title() -> None:
    titles = {name: len(re.findall(r"^# ", page, flags=re.M)) for name, page in markdown().items()}
    assert {name: count for name, count in titles.items() if count != 1} == {}
