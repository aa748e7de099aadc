"""Reading what a consumer says about records: from acknowledgement batches to runs of one verb.

Checks here need the window's bounds only, not its content (KIP-932 "ShareAcknowledge", Kafka
classes KafkaApis and SharePartition). Types come one per range or one per offset; a per-offset
array is cut into runs at C speed, never walked in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.record_state import AckType, Verb

_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_TYPES = bytes(AckType)
_RENEW = bytes([AckType.RENEW])
_VERBS = tuple(Verb(kind) for kind in AckType)


class AckBatch(NamedTuple):
    """One acknowledgement batch: offsets ``first`` … ``last``, one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class AckRun(NamedTuple):
    """Adjoining offsets that meet the same verb."""

    first: int
    last: int
    verb: Verb


def checked_runs(
    batches: Iterable[AckBatch], *, start: int, end: int, renew_allowed: bool
) -> list[AckRun]:
    """Ascending runs of ``batches`` inside the window ``start`` … ``end - 1``.

    What lies below ``start`` is finished already and ignored. ``renew_allowed``: the request may
    carry RENEW at all (version 2 with IsRenewAck).

    Raises:
        InvalidRequest: a batch is malformed, overlaps the one before it, or goes past what was
            acquired. Kafka lets an overlap of exactly one offset through to fail later as
            InvalidRecordState; here it is malformed like any other.
        InvalidRecordState: nothing is in flight at all.
    """
    texts = [(batch, _checked_types(batch, renew_allowed=renew_allowed)) for batch in batches]
    previous_last = -1
    for batch, _ in texts:
        if batch.first <= previous_last:
            raise InvalidRequest(f"Acknowledgement batch at {batch.first} overlaps another one.")
        previous_last = batch.last
    runs: list[AckRun] = []
    for batch, types in texts:
        if batch.last < start:
            continue
        if start == end:
            raise InvalidRecordState(f"Offset {batch.first} is not among the acquired records.")
        if batch.last >= end:
            raise InvalidRequest(f"Offset {batch.last} is past the acquired records.")
        for run in _runs(batch, types):
            if run.first >= start:
                _add(runs, run)
            elif run.last >= start:
                _add(runs, AckRun(start, run.last, run.verb))
    return runs


def adjoining(runs: list[AckRun]) -> Iterator[list[AckRun]]:
    """``runs`` in groups without a hole inside."""
    group: list[AckRun] = []
    for run in runs:
        if group and group[-1].last + 1 != run.first:
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _checked_types(batch: AckBatch, *, renew_allowed: bool) -> bytes:
    if batch.last < batch.first or batch.first < 0:
        raise InvalidRequest(f"Acknowledgement batch {batch.first}-{batch.last} is no range.")
    if len(batch.types) not in (1, batch.last - batch.first + 1):
        raise InvalidRequest(
            f"Acknowledgement batch {batch.first}-{batch.last} has {len(batch.types)} types;"
            " one for all or one for each offset is expected."
        )
    try:
        types = bytes(batch.types)
    except ValueError:
        raise InvalidRequest("An acknowledgement type is out of range.") from None
    if unknown := types.translate(None, _TYPES):
        raise InvalidRequest(f"Acknowledgement type {unknown[0]} is unknown.")
    if not renew_allowed and _RENEW in types:
        raise InvalidRequest("RENEW is allowed only in a request marked for renewal.")
    return types


def _runs(batch: AckBatch, types: bytes) -> Iterator[AckRun]:
    if len(types) == 1:
        yield AckRun(batch.first, batch.last, _VERBS[types[0]])
        return
    for match in _RUN.finditer(types):
        first, end = match.span()
        yield AckRun(batch.first + first, batch.first + end - 1, _VERBS[types[first]])


def _add(runs: list[AckRun], run: AckRun) -> None:
    if runs and runs[-1].last + 1 == run.first and runs[-1].verb is run.verb:
        run = AckRun(runs.pop().first, run.last, run.verb)
    runs.append(run)
