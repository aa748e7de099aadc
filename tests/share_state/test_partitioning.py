from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.partitioning import abs_java, java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_hash_is_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_absolute_of_the_number_that_has_none_is_zero() -> None:
    assert [abs_java(n) for n in (-(2**31), -5, 5)] == [0, 5, 5]


def test_a_key_stays_within_the_partitions() -> None:
    key = SharePartitionKey("g", UUID(int=9), 3)
    expected = abs_java(java_string_hash("g:AAAAAAAAAAAAAAAAAAAACQ:3")) % 50
    assert partition_for(key, 50) == expected
    assert partition_for(key, 1) == 0
