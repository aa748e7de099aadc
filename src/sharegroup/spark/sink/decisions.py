"""A query's decisions about its records: turns rows ``(topic, partition, offset, ack[, delay_ms]
[, reason])`` into ranges of offsets.

A decision is about one record. The same decision may be made twice; two different decisions about
one record are an error. All functions work on whole columns. Neighbouring records with the same
decision share a range, so a million rows may become a few ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharegroup.arrow.answers import WORDS
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.sink.raw_text import texts
from sharegroup.spark.sink.reasons import Reasons, reasons_in, reasons_of_all

Rows = NDArray[np.int64]
"""Four columns: first offset, last offset, type, delay in milliseconds. Ascending by offset,
disjoint."""


class DecisionError(SharegroupError):
    """The rows that a query gave to its sink are no valid decisions."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions by topic and partition, and the reasons of records that have one."""

    rows: Mapping[TopicPartition, Rows] = field(default_factory=dict)
    reasons: Reasons = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def records(self) -> int:
        """About how many records the decisions are about."""
        return sum(int((rows[:, 1] - rows[:, 0] + 1).sum()) for rows in self.rows.values())

    def lists(self) -> dict[TopicPartition, list[list[int]]]:
        """The decisions as lists of plain numbers."""
        return {where: rows.tolist() for where, rows in self.rows.items()}


def decisions_in(batch: pa.RecordBatch) -> Decisions:
    """The decisions in one Arrow batch of the sink's input.

    Raises:
        DecisionError: a null in a required column, a word that is not in ``WORDS``, a delay for a
            word that takes no delay, or two decisions about one record.
        NotText: a topic or a word is no UTF-8.
    """
    if not batch.num_rows:
        return Decisions()
    names, topics = _topics(batch.column("topic"))
    partitions = _integers(batch, "partition")
    singles = np.empty((batch.num_rows, 4), np.int64)
    singles[:, 0] = singles[:, 1] = _integers(batch, "offset")
    singles[:, 2] = _types(batch.column("ack"))
    singles[:, 3] = _delays(batch)
    _check(singles, partitions)
    reasons = _reasons(batch, singles[:, 2])
    order = np.lexsort((singles[:, 3], singles[:, 2], singles[:, 0], partitions, topics))
    singles, topics, partitions = singles[order], topics[order], partitions[order]
    changes = (np.diff(topics) != 0) | (np.diff(partitions) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(order)]
    found = {}
    for start, end in pairwise(starts):
        where = TopicPartition(names[topics[start]], int(partitions[start]))
        found[where] = _joined(_unique(where, singles[start:end]))
    return Decisions(found, reasons)


def merged(parts: Iterable[Decisions]) -> Decisions:
    """The decisions of all parts in one object.

    Raises:
        DecisionError: two parts decide differently about one record.
    """
    by_partition: dict[TopicPartition, list[Rows]] = {}
    reasons: list[Reasons] = []
    for part in parts:
        if part.reasons:
            reasons.append(part.reasons)
        for where, rows in part.rows.items():
            by_partition.setdefault(where, []).append(rows)
    return Decisions(
        {
            where: rows[0] if len(rows) == 1 else _union(where, np.concatenate(rows))
            for where, rows in sorted(by_partition.items())
        },
        reasons_of_all(reasons),
    )


def _union(where: TopicPartition, rows: Rows) -> Rows:
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    if np.any(rows[1:, 0] <= rows[:-1, 1]):  # decided twice: compare record by record
        rows = _singles(rows)
        rows = _unique(where, rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 0]))])
    return _joined(rows)


def _singles(rows: Rows) -> Rows:
    """One row for each record."""
    sizes = rows[:, 1] - rows[:, 0] + 1
    singles = np.repeat(rows, sizes, axis=0)
    first_of_range = np.repeat(np.cumsum(sizes) - sizes, sizes)
    singles[:, 0] += np.arange(len(singles)) - first_of_range
    singles[:, 1] = singles[:, 0]
    return singles


def _unique(where: TopicPartition, singles: Rows) -> Rows:
    """Ascending rows for single records, each record once."""
    same_record = singles[1:, 0] == singles[:-1, 0]
    if not same_record.any():
        return singles
    differs = same_record & np.any(singles[1:, 2:] != singles[:-1, 2:], axis=1)
    if differs.any():
        at = int(np.flatnonzero(differs)[0])
        one, two = (_said(singles[i]) for i in (at, at + 1))
        raise DecisionError(
            f"{where} offset {singles[at, 0]} is to be both {one} and {two}: a batch must decide "
            f"once about a record ({int(differs.sum())} records are decided differently)"
        )
    return singles[np.concatenate(([True], ~same_record))]


def _said(row: Rows) -> str:
    word = next(word for word, code in WORDS.items() if code == row[2])
    return f"{word} after {row[3]} ms" if row[3] else word


def _joined(rows: Rows) -> Rows:
    """Join neighbours with the same decision into one range."""
    if len(rows) < 2:
        return rows
    goes_on = (rows[1:, 0] == rows[:-1, 1] + 1) & np.all(rows[1:, 2:] == rows[:-1, 2:], axis=1)
    starts = np.flatnonzero(np.concatenate(([True], ~goes_on)))
    joined = rows[starts]
    joined[:, 1] = rows[np.concatenate((starts[1:] - 1, [len(rows) - 1])), 1]
    return joined


# --- columns --------------------------------------------------------------------------------------


def _topics(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    _no_nulls("topic", column)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return texts("topic", column.dictionary), _numbers(column.indices)


def _integers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    column = batch.column(name)
    _no_nulls(name, column)
    return _numbers(column)


def _types(column: Any) -> NDArray[np.int64]:
    _no_nulls("ack", column)
    if pa.types.is_integer(column.type):
        codes = _numbers(column)
        wrong = np.flatnonzero((codes < AckType.ACCEPT) | (codes > AckType.RENEW))
        if len(wrong):
            _refuse_word(int(codes[wrong[0]]))
        return codes
    words = column.dictionary_encode()
    known = [WORDS.get(word.strip().lower(), 0) for word in texts("ack", words.dictionary)]
    if 0 in known:
        _refuse_word(words.dictionary[known.index(0)].as_py())
    types: NDArray[np.int64] = np.array(known, np.int64)[_numbers(words.indices)]
    return types


def _delays(batch: pa.RecordBatch) -> NDArray[np.int64]:
    if "delay_ms" not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64)
    return _numbers(pc.fill_null(batch.column("delay_ms"), 0))


def _reasons(batch: pa.RecordBatch, types: NDArray[np.int64]) -> Reasons:
    if "reason" not in batch.schema.names:
        return {}
    given = batch.column("reason").is_valid().to_numpy(zero_copy_only=False)
    failed = np.flatnonzero(given & np.isin(types, (AckType.REJECT, AckType.RELEASE)))
    return reasons_in(batch.take(pa.array(failed))) if len(failed) else {}


def _numbers(column: Any) -> NDArray[np.int64]:
    found: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _check(singles: Rows, partitions: NDArray[np.int64]) -> None:
    if (partitions < 0).any() or (singles[:, 0] < 0).any():
        raise DecisionError(
            "a partition or offset below 0 was decided about: pass on the columns topic, partition "
            "and offset as the source gave them"
        )
    delays, types = singles[:, 3], singles[:, 2]
    if (delays < 0).any():
        raise DecisionError("delay_ms is below 0: write how many milliseconds to wait, or null")
    if ((delays > 0) & (types != AckType.RELEASE) & (types != AckType.RENEW)).any():
        raise DecisionError(
            "delay_ms goes with release and renew: write null (or 0) where ack is accept or reject"
        )


def _no_nulls(name: str, column: Any) -> None:
    if column.null_count:
        raise DecisionError(
            f"{name} is null in {column.null_count} of {len(column)} rows: decide about every row, "
            "or filter out the rows that are to get the source's defaultAck"
        )


def _refuse_word(word: object) -> None:
    raise DecisionError(f"ack is {word!r}: write accept, release, reject or renew (or 1, 2, 3, 4)")
