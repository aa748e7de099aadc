from __future__ import annotations

import pytest

from sharegroup.broker.configs.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n  ! nor this\n\n a = b = c ", {"a": "b = c "}),
        ("a=1,\\\n   2,\\\r\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (r"a\=b\:c\ d=\u0041\n\q", {"a=b:c d": "A\nq"}),
        ("empty\nalso=\n=nameless", {"empty": "", "also": "", "": "nameless"}),
        ("twice=1\ntwice=2", {"twice": "2"}),
        ("last=1\\", {"last": "1"}),
        ("a=x\\\n# still the value", {"a": "x# still the value"}),
        ("\ufeffa=1\nb=2", {"a": "1", "b": "2"}),
        ("\ufeff# no\na=1", {"a": "1"}),
    ],
)
def test_java_properties(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values
