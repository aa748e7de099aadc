"""Bytes as a page shows them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.console.payloads import SHOWN_BYTES_MAX, beginning, shown


def anything(children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(children) | st.dictionaries(st.text(), children)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b"hello", "text", "hello"),
        ("grüße".encode(), "text", "grüße"),
        (b"\xff\x00", "hex", "ff 00"),
        (b'{"a":[1,2]}', "json", '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b"{no json", "text", "{no json"),
        (b"[" * 100_000, "text", "[" * SHOWN_BYTES_MAX),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_what_is_shown(data: bytes | None, form: str, text: str) -> None:
    found = shown(data)
    assert (found["form"], found["text"]) == (form, text)


@pytest.mark.parametrize(
    "token",
    [
        r'"\ud83d"',
        r'"\u00e9\/\\\" , [1,2] {:}"',
        '"\u2028\u00a0"',
        "1.10",
        "12345678901234567890.123",
        "1E400",
        "-0",
        "9" * 5_000,
        "[]",
        "{}",
        "null",
    ],
)
def test_json_is_shown_as_it_was_written(token: str) -> None:
    found = shown(f'{{"a" :{token},\n"a":\t[ {token}\r]}}'.encode())
    expected = f'{{\n  "a": {token},\n  "a": [\n    {token}\n  ]\n}}'
    assert (found["form"], found["text"]) == ("json", expected)
    json.dumps(found, ensure_ascii=False).encode()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(), anything))
def test_json_is_indented_as_python_does(value: object) -> None:
    text = json.dumps([value], ensure_ascii=False)
    assert shown(text.encode())["text"] == json.dumps([value], indent=2, ensure_ascii=False)


def test_json_that_would_be_too_long_is_shown_as_it_is() -> None:
    """Each line of these is indented by 600 spaces."""
    text = "[" * 300 + ",".join("1" * 32_000) + "]" * 300
    found = shown(text.encode())
    assert (found["form"], found["text"]) == ("text", text)


def test_json_that_is_too_deep_is_text() -> None:
    deep = b"[" * 30_000 + b"]" * 30_000
    assert shown(deep)["form"] == "text"


@given(st.binary(max_size=8), st.integers(0, 4))
def test_long_bytes_are_cut(end: bytes, overlap: int) -> None:
    """Also in the middle of a character."""
    data = b"x" * (SHOWN_BYTES_MAX - overlap) + end
    found = shown(data)
    assert found["cut"] == (len(data) > SHOWN_BYTES_MAX)
    assert found["size"] == len(data)
    assert found["form"] in ("text", "hex")
    json.dumps(found)


def test_a_character_that_is_cut_is_left_out() -> None:
    data = b"x" * (SHOWN_BYTES_MAX - 1) + "é".encode()
    assert shown(data)["text"] == "x" * (SHOWN_BYTES_MAX - 1)


@pytest.mark.parametrize(
    ("data", "form", "text", "cut"),
    [
        (None, "null", "", False),
        (b"", "text", "", False),
        (b'{"a": 1.10}', "text", '{"a": 1.10}', False),
        (b"x" * 200, "text", "x" * 200, False),
        (b"x" * 201, "text", "x" * 200, True),
        ("é".encode() * 500, "text", "é" * 200, True),
        (b"x" + "é".encode() * 500, "text", "x" + "é" * 199, True),
        ("\U0001f600".encode() * 200, "text", "\U0001f600" * 200, False),
        (b"\xff" * 3, "hex", "ff ff ff", False),
        (b"\xff" * 68, "hex", "ff " * 66 + "ff", True),
    ],
)
def test_a_line_has_room_for_the_beginning(
    data: bytes | None, form: str, text: str, cut: bool
) -> None:
    size = 0 if data is None else len(data)
    assert beginning(data) == {"form": form, "text": text, "size": size, "cut": cut}
