"""The reasons that rows give for their answers: the column ``reason``, as ranges of offsets.

A reason is no part of a decision: two rows that decide the same about a record may say it in other
words, and the first of them is kept. Records that are accepted or renewed have none, whatever the
column says. Only records with a reason cost anything here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import DEATH_REASON_LENGTH_MAX, SINK_REASON_CHARACTERS_MAX
from sharegroup.spark.ranges import Reason, without
from sharegroup.spark.sink.raw_text import readable

if TYPE_CHECKING:
    import pyarrow as pa

Reasons = Mapping[TopicPartition, Sequence[Reason]]
"""Ascending and disjoint in each partition."""


def reasons_in(batch: pa.RecordBatch) -> Reasons:
    """The reasons in an Arrow batch whose rows all have one, or an empty text."""
    texts: dict[TopicPartition, dict[int, str]] = {}
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    said = readable(batch.column("reason"))
    for topic, partition, offset, text in zip(*columns, said, strict=True):
        if text:
            own = texts.setdefault(TopicPartition(topic, partition), {})
            own.setdefault(offset, text[:DEATH_REASON_LENGTH_MAX])
    return _shortened({where: _joined(own) for where, own in texts.items()})


def reasons_of_all(parts: Iterable[Reasons]) -> Reasons:
    """The reasons of all parts."""
    found: dict[TopicPartition, list[Reason]] = {}
    for part in parts:
        for where, own in part.items():
            known = found.get(where, [])
            found[where] = sorted([*known, *without(own, known)]) if known else list(own)
    return _shortened(found)


def _joined(texts: Mapping[int, str]) -> list[Reason]:
    """Offsets and their reasons as ranges; neighbours with the same reason share one."""
    found: list[Reason] = []
    for offset, text in sorted(texts.items()):
        if found and found[-1].last == offset - 1 and found[-1].text == text:
            found[-1] = found[-1]._replace(last=offset)
        else:
            found.append(Reason(offset, offset, text))
    return found


def _shortened(reasons: Mapping[TopicPartition, list[Reason]]) -> Reasons:
    """The reasons, cut to one length if there are more than SINK_REASON_CHARACTERS_MAX characters
    in all."""
    if sum(len(one.text) for own in reasons.values() for one in own) <= SINK_REASON_CHARACTERS_MAX:
        return reasons
    most = SINK_REASON_CHARACTERS_MAX // sum(map(len, reasons.values()))
    return {
        where: [one._replace(text=one.text[:most]) for one in own if most]
        for where, own in reasons.items()
    }
