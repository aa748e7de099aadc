"""Answers for many records: every form that a user may have them in becomes one code for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sharegroup.arrow.answers import answer_codes
from sharegroup.client import AckType

WORDS = ["accept", "RELEASE", "Reject", " renew ", None]
CODES = [1, 2, 3, 4, None]
MASK = [True, False, True, False, None]

BY_WORD = {
    "list": WORDS,
    "numpy": np.array(WORDS, object),
    "pandas": pd.Series(WORDS),
    "category": pd.Series(WORDS).astype("category"),
    "polars": pl.Series(WORDS),
    "polars category": pl.Series(WORDS, dtype=pl.Categorical),
    "arrow": pa.array(WORDS),
    "large": pa.array(WORDS, pa.large_string()),
    "view": pa.array(WORDS, pa.string_view()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "chunked": pa.chunked_array([WORDS[:2], [], WORDS[2:]]),
}
BY_CODE = {
    "list": CODES,
    "words of the client": [AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW, None],
    "numpy": np.array([1, 2, 3, 4, np.nan]),
    "pandas": pd.Series(CODES),
    "nullable": pd.Series(CODES, dtype="Int64"),
    "polars": pl.Series(CODES),
    "arrow": pa.array(CODES, pa.uint8()),
}
BY_MASK = {
    "list": MASK,
    "pandas": pd.Series(MASK),
    "nullable": pd.Series(MASK, dtype="boolean"),
    "polars": pl.Series(MASK),
    "arrow": pa.array(MASK),
    "chunked": pa.chunked_array([MASK[:3], MASK[3:]]),
}


def said(answers: Any) -> list[int]:
    return answer_codes(answers, 5).tolist()


@pytest.mark.parametrize("answers", BY_WORD.values(), ids=BY_WORD.keys())
def test_words(answers: Any) -> None:
    assert said(answers) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("answers", BY_CODE.values(), ids=BY_CODE.keys())
def test_codes(answers: Any) -> None:
    assert said(answers) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("answers", BY_MASK.values(), ids=BY_MASK.keys())
def test_true_accepts_and_false_releases(answers: Any) -> None:
    assert said(answers) == [1, 2, 1, 2, 0]


def test_a_mask_of_numpy() -> None:
    assert answer_codes(np.arange(4) < 2, 4).tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("answer", "code"),
    [("reject", 3), (AckType.RENEW, 4), (2, 2), (True, 1), (False, 2)],
)
def test_one_answer_for_all(answer: object, code: int) -> None:
    assert answer_codes(answer, 3).tolist() == [code] * 3


def test_no_rows_give_no_answers() -> None:
    assert said([None] * 5) == [0] * 5
    assert answer_codes(pa.chunked_array([], pa.string()), 0).tolist() == []


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        (["accept", "acept"], "'acept' is not an answer: write accept, release, reject or renew"),
        ([1, 5], "5 is not an answer"),
        ([0, 1], "0 is not an answer"),
        ([1.5, 2], "1.5"),
        ([[1], [2]], "list"),
        ([b"\xff", b"accept"], "answers cannot be binary"),
        (["accept"], "1 answers for 2 records"),
        (["accept"] * 3, "3 answers for 2 records"),
        ("acept", "'acept' is not an answer"),
    ],
)
def test_invalid_answers_are_refused(answers: object, named: str) -> None:
    with pytest.raises(ValueError, match=r".") as refusal:
        answer_codes(answers, 2)
    assert named in str(refusal.value)
