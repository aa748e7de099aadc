"""Expressions over dead letters: what they choose, and that nothing else is evaluated."""

from __future__ import annotations

import ast
import builtins
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.dead_letter import DeadLetter, LetterReader
from sharegroup.client.core.letter_expression import (
    FIELDS,
    BadExpression,
    LetterExpression,
    duration_ms,
)
from sharegroup.client.core.record import Headers
from sharegroup.model.ids import TopicPartition

HOUR_MS = 3_600_000


def letter(headers: Headers, said: dict[str, object], key: bytes | None) -> DeadLetter:
    added = [(f"__dlq.errors.{name}", str(text).encode()) for name, text in said.items()]
    record = LogLetter(PLACE, 3, 1_000_000, key, b"v", [*headers, *added])
    found = LetterReader("billing").letter_in(record)
    assert found is not None
    return found


class LogLetter(NamedTuple):
    """A record as it is in the log."""

    topic_partition: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


PLACE = TopicPartition("dead", 0)
ORIGIN: dict[str, object] = {"topic": "orders", "partition": 1, "offset": 7, "group": "billing"}
SAID: dict[str, object] = {
    "cause": "rejected",
    "message": "no such customer 17\ntraceback",
    "member": "m-1",
    "delivery.count": 5,
    "failed.ms": 1_000_000,
}
LETTER = letter([("x", b"0"), ("x", b"1"), ("empty", None)], ORIGIN | SAID, "schlüssel".encode())
BARE = letter([], ORIGIN, None)
NOW_MS = 1_000_000 + 2 * HOUR_MS


def chooses(text: str, letter: DeadLetter = LETTER) -> bool:
    return LetterExpression(text).chooses(letter, NOW_MS)


@pytest.mark.parametrize(
    "text",
    [
        'cause == "rejected"',
        "  cause != 'released'\n",
        "age > 1h and age <= 2h and age < 2d",
        'age == "7200s" or age == 7200000ms',
        r'message matches "customer \d+"',
        'not message matches "^customer"',
        "message matches 'traceback$' and not (offset > 7 or partition != 1)",
        'headers["x"] == "1"',
        '"x" in headers and "y" not in headers',
        'headers["y"] == None and headers["empty"] == None',
        'deliveries in (5, 6) and cause in ["a", "rejected"] and offset in {7}',
        "1 < deliveries <= 5 and offset >= -1",
        'failed < "2026-11-27T00:00" and failed == "1970-01-01T00:16:40Z"',
        'failed < "1970-01-01T01:16:41+01:00"',
        '"such" in message and "x" not in message',
        'key == "schlüssel" and topic == "orders" and member matches "m"',
        'message != "matches 2d # \'" and member != "2h"',
    ],
)
def test_it_is_true(text: str) -> None:
    assert chooses(text)


@pytest.mark.parametrize(
    "text",
    [
        "deliveries < 5",
        "deliveries > 5 or age < 1h",
        'cause in ("a", "b")',
        'key matches "x"',
        "not age > 1h",
    ],
)
def test_it_is_false(text: str) -> None:
    assert not chooses(text)


@pytest.mark.parametrize(
    "text", ["deliveries < 5", "deliveries >= 0", 'key matches ""', '"x" in message', 'key > "a"']
)
def test_what_a_letter_does_not_have_is_no_match(text: str) -> None:
    assert not chooses(text, BARE)
    assert chooses("deliveries == None and cause != 'x' and message != ''", BARE)


@pytest.mark.parametrize(
    ("text", "why", "at"),
    [
        ("cause", "this is text, and no condition", 0),
        ('cause == "a" and offset', "this is a number, and no condition", 17),
        ("größe == 1", "größe is no field; the fields are topic,", 0),
        ('key == "ü" and größe == 1', "größe is no field", 15),
        ("cause == 1", "this is a number, beside text", 9),
        ("age > 5", "this is a number, beside a duration such as 2d", 6),
        ("age < 2d and offset == 3h", "this is a duration such as 2d, beside a number", 23),
        ("2j == age", "write text in quotes, a number, a duration", 0),
        ('message matches "("', "this is no regular expression: missing )", 16),
        ("message matches cause", "write a regular expression in quotes", 16),
        ('offset matches "1"', "this is a number, and only text can match", 0),
        ('failed > "yesterday"', "write a time, as in", 9),
        ('age > "long"', "write a duration, as in", 6),
        ("cause is None", "write == or !=, and not is", 9),
        ("cause < None", "None has no order", 8),
        ('headers == "x"', "name a header", 0),
        ("headers[0] == 'x'", "write the name of a header", 8),
        ("cause in (member,)", "write constants here", 10),
        ("cause in 5", "write a list such as", 9),
        ('cause == "a" # or True', "this is not an expression", 13),
        ("cause ==", "this is not an expression", 8),
        ("", "this is not an expression", 0),
        ("True", "write text in quotes, a number, a duration such as 2d, or None", 0),
        ("cause == 'a'; offset == 1", "this is not an expression", 12),
        ("(" * 300, "this is not an expression", None),
        ("offset == 1 or " * 400, "the expression has more than", 0),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, why: str, at: int | None) -> None:
    with pytest.raises(BadExpression) as caught:
        LetterExpression(text)
    said = str(caught.value)
    assert said.startswith(why)
    assert at is None or f": at character {at + 1} of " in said
    line, mark = caught.value.pointer
    assert len(mark) <= len(line) + 1


@pytest.mark.parametrize("word", ["not ", "(", "-", "offset == 1 and ("])
def test_what_is_nested_deeply_is_read_or_refused(word: str) -> None:
    for depth in (10, 90, 250, 900):
        try:
            LetterExpression(word * depth + "offset == 7" + ")" * depth * ("(" in word))
        except BadExpression:
            continue


@pytest.mark.parametrize(
    "text",
    [
        '__import__("os").system("false")',
        "cause.upper() == 'A'",
        "().__class__ == 1",
        "(lambda: offset == 1)()",
        'f"{offset}" == "7"',
        "[one for one in headers] == 1",
        "offset + 1 == 8",
        "offset == (x := 1)",
        "headers['x'][0] == '1'",
        "9 ** 9 ** 9 == offset",
        "offset @ 1",
        "offset == 1 if True else False",
        "*topic == 1",
        "await topic",
        "b'x' == key",
        "... == key",
        "key == `id`",
        "print == None",
        "open in ('a',)",
    ],
)
def test_python_is_not_evaluated(text: str) -> None:
    with pytest.raises(BadExpression):
        LetterExpression(text)


_ATOMS = st.sampled_from(
    [*FIELDS, '"a"', "'2d'", "1", "2.5", "3h", "2j", "None", "True", "__import__", "open", "x"]
)
_WORDS = "== != <= >= ** := -> f' in matches and or not is lambda if else for await yield"
_JOINTS = st.sampled_from([*_WORDS.split(), *"<>+-*/@%|&.,:;()[]{}=#\\\n`"])


@given(st.lists(st.one_of(_ATOMS, _JOINTS), max_size=14), st.sampled_from(["", " "]))
def test_any_text_is_an_expression_over_fields_or_refused(words: list[str], gap: str) -> None:
    text = gap.join(words)
    try:
        expression = LetterExpression(text)
    except BadExpression:
        return
    assert isinstance(expression.chooses(LETTER, NOW_MS), bool)
    assert isinstance(expression.chooses(BARE, NOW_MS), bool)


@given(st.text(max_size=60))
def test_any_characters_are_read_or_refused(text: str) -> None:
    try:
        LetterExpression(text).chooses(LETTER, NOW_MS)
    except BadExpression:
        return


def _nodes() -> st.SearchStrategy[str]:
    """Expressions of Python over fields, with calls, attributes and arithmetic."""
    leaf = st.sampled_from(
        [*FIELDS, "1", "'a'", "None", *(n for n in dir(builtins) if n.isidentifier())]
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({}) == ({})".format, inner, inner),
            st.builds("({}) and ({})".format, inner, inner),
            st.builds("not ({})".format, inner),
            st.builds("({}) in ({},)".format, inner, inner),
            st.builds("({})({})".format, inner, inner),
            st.builds("({}).real".format, inner),
            st.builds("({})[{}]".format, inner, inner),
            st.builds("({}) + ({})".format, inner, inner),
            st.builds("[{} for x in {}]".format, inner, inner),
        ),
        max_leaves=8,
    )


@given(_nodes())
def test_only_fields_are_names_and_nothing_is_called(text: str) -> None:
    try:
        expression = LetterExpression(text)
    except BadExpression:
        return
    tree = ast.parse(text, mode="eval")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert names <= set(FIELDS)
    assert not any(
        isinstance(node, ast.Call | ast.Attribute | ast.BinOp | ast.ListComp)
        for node in ast.walk(tree)
    )
    expression.chooses(LETTER, NOW_MS)


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("2d", 172_800_000), ("5", None), ("d", None), ("-1d", None)]
)
def test_durations(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms


def test_it_knows_whether_letters_without_copies_must_be_looked_up() -> None:
    assert LetterExpression('key == "a"').needs_record
    assert LetterExpression('"a" in headers').needs_record
    assert not LetterExpression('cause == "key" and age > 1d').needs_record
