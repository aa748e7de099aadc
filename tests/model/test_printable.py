"""Text of others, made safe to print."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.printable import (
    EscapedLines,
    EscapedMessages,
    encodable,
    last_word,
    printable,
    printable_json,
)
from tests.servers.odd_names import ODD

ANY_TEXT = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ä, 東京, 🙂", "plain, ä, 東京, 🙂"),
        ("a\nb\r", "a\\nb\\r"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_printable_characters_are_kept() -> None:
    assert printable("a\tb\n", keep="\t") == "a\tb\\n"


@given(ANY_TEXT)
def test_results_are_printable_and_escaping_is_idempotent(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    shown.encode()


@given(ANY_TEXT)
def test_text_becomes_encodable_and_else_stays(text: str) -> None:
    sent = encodable(text).encode().decode()
    assert sent == text.encode(errors="backslashreplace").decode()
    assert encodable(sent) == sent


@given(ANY_TEXT, st.sampled_from([None, 2]))
def test_escaped_json_has_the_same_value(text: str, indent: int | None) -> None:
    document = printable_json(json.dumps([text, {text: 1}], ensure_ascii=False, indent=indent))
    assert document.replace("\n", "").isprintable()
    assert len(document.splitlines()) == (1 if indent is None else 6)
    # Two lone surrogates that stand side by side are one character to JSON.
    again = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert json.loads(document) == [again, {again: 1}]


def test_a_log_line_stays_one_line_and_a_traceback_below_it_forges_none() -> None:
    forged = "x\n2026-01-01 00:00:00,000 INFO all is well"
    try:
        raise ValueError(forged)
    except ValueError:
        caught = sys.exc_info()
    record = logging.LogRecord("a", 40, "a.py", 1, "group %s", (forged,), caught)
    first, *below = EscapedLines("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "ERROR group x\\n2026-01-01 00:00:00,000 INFO all is well"
    assert below
    assert all(line.startswith("  ") for line in below)


def test_loggers_escape_for_handlers_of_others(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("a.logger.of.this.test")
    logger.addFilter(EscapedMessages())
    logger.warning("group %s", "a\nb")
    logger.warning("group %s", "plain")
    assert caplog.messages == ["group a\\nb", "group plain"]
    assert [record.args for record in caplog.records] == [None, ("plain",)]


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_a_shell_takes_the_last_word_of_a_proposed_command_for_the_name(name: str) -> None:
    word = last_word(name)
    assert word.isprintable()
    code = "import sys, os; sys.stdout.buffer.write(os.fsencode(sys.argv[-1]))"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {word}"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, timeout=30, check=True)
    assert shown.stdout.decode() == name.partition("\0")[0], "a word cannot have a NUL"
    assert word.startswith("-- ") == name.startswith("-")
