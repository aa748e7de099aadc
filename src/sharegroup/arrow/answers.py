"""Acknowledgements of many records at once. They are given as a word, a mask, or one word or code
for each record, and become one array of codes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.arrow.records import Bytes

WORDS: Final = {"accept": 1, "release": 2, "reject": 3, "renew": 4}
"""Word → the code that ShareAcknowledge has for it (KIP-932, KIP-1222)."""
NOTHING: Final = 0
"""No acknowledgement for this record."""
_ACCEPT, _RELEASE, _END = WORDS["accept"], WORDS["release"], WORDS["renew"] + 1
_WRITE: Final = (
    "write accept, release, reject or renew, their codes 1 to 4, or true (accept) and false "
    "(release)"
)


def answer_codes(answers: Any, rows: int) -> Bytes:
    """One code for each of ``rows`` records, ``NOTHING`` where the answer is null.

    Args:
        answers: a word or code for all records; or a list or an Arrow, NumPy, Polars or pandas
            column with one answer for each: words of :data:`WORDS` in upper or lower case, their
            codes, or true for accept and false for release.

    Raises:
        ValueError: an answer is none of these, or there are more or fewer answers than records.
    """
    if isinstance(answers, str | int):
        return np.repeat(_codes(pa.array([answers])), rows)
    column = _column(answers)
    if len(column) != rows:
        raise ValueError(
            f"{len(column)} answers for {rows} records: give one for each, null for those that "
            "stay pending"
        )
    return _codes(column)


def _column(answers: Any) -> Any:
    """The answers as one Arrow array; missing values of pandas and NumPy become null."""
    if not hasattr(answers, "__arrow_c_stream__"):
        return pa.array(answers, from_pandas=True)
    if not isinstance(answers, pa.ChunkedArray):
        answers = pa.chunked_array(answers)
    column = answers.combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _codes(column: Any) -> Bytes:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint8)
    if pa.types.is_boolean(kind):
        codes = np.array([_RELEASE, _ACCEPT], np.uint8)
        indices = column.cast(pa.uint8())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        codes = np.arange(_END, dtype=np.uint8)
        indices = _checked(column)
    else:
        words = column if pa.types.is_dictionary(kind) else _text(column).dictionary_encode()
        codes = np.array([_code(word) for word in words.dictionary.to_pylist()], np.uint8)
        indices = words.indices
    return _taken(codes, indices)


def _taken(codes: Bytes, indices: Any) -> Bytes:
    """``codes`` by index, ``NOTHING`` where the index is null."""
    at = pc.fill_null(indices, 0).to_numpy(zero_copy_only=False)
    found = codes[at] if len(codes) else np.zeros(len(at), np.uint8)
    if indices.null_count:
        found[indices.is_null().to_numpy(zero_copy_only=False)] = NOTHING
    return found


def _checked(column: Any) -> Any:
    """The column of numbers, if all of them are codes. Raises ValueError otherwise."""
    wrong = column.filter(pc.or_(pc.less(column, _ACCEPT), pc.greater_equal(column, _END)))
    if len(wrong):
        raise _refusal(wrong[0].as_py())
    try:
        return column.cast(pa.uint8())
    except pa.ArrowInvalid as error:
        raise ValueError(f"{error}: {_WRITE}") from error


def _text(column: Any) -> Any:
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"answers cannot be {column.type}: {_WRITE}") from error


def _code(word: Any) -> int:
    code = WORDS.get(word.strip().lower()) if isinstance(word, str) else None
    if code is None:
        raise _refusal(word)
    return code


def _refusal(answer: object) -> ValueError:
    return ValueError(f"{answer!r} is not an answer: {_WRITE}")
