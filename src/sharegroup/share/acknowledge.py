"""Parse acknowledgements: acknowledgement batches become runs of offsets with one verb.

Checks here need only the window's bounds, not its content (KIP-932 "ShareAcknowledge", Kafka
classes KafkaApis and SharePartition). A batch has one type for its range or one per offset. An
array of types is split into runs at C speed, not in a Python loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.record_state import AckType, Verb

_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_TYPES = bytes(AckType)
_RENEW = bytes([AckType.RENEW])
_SINGLE = {int(kind): bytes([kind]) for kind in AckType if kind is not AckType.RENEW}
_VERBS = tuple(Verb(kind) for kind in AckType)


NEAR_OFFSETS: Final = 16
"""Runs with at most this many offsets between them are handled together: to step over the hole,
which has no more pieces than offsets, costs less than a second pass."""


class AckBatch(NamedTuple):
    """One acknowledgement batch: offsets ``first`` … ``last``, one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class AckRun(NamedTuple):
    """Adjoining offsets to which the same verb applies. Verb None: they stay as they are."""

    first: int
    last: int
    verb: Verb | None


def checked_runs(
    batches: Iterable[AckBatch], *, start: int, end: int, renew_allowed: bool
) -> list[AckRun]:
    """Ascending runs of ``batches`` inside the window ``start`` … ``end - 1``.

    Offsets below ``start`` are finished already and are ignored. ``renew_allowed``: whether the
    request may carry RENEW (version 2 with IsRenewAck).

    Raises:
        InvalidRequest: a batch is malformed, overlaps the one before it, or ends past the window.
            Kafka does not see an overlap of exactly one offset here, and fails later with
            InvalidRecordState; we refuse it like any other.
        InvalidRecordState: nothing is in flight.
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
        if len(types) == 1:
            _add(runs, max(batch.first, start), batch.last, _VERBS[types[0]])
            continue
        for match in _RUN.finditer(types):
            at, after = match.span()
            first, last = batch.first + at, batch.first + after - 1
            if last >= start:
                _add(runs, max(first, start), last, _VERBS[types[at]])
    return runs


def neighbouring(runs: list[AckRun]) -> Iterator[list[AckRun]]:
    """Group ``runs`` so that no group has a hole inside.

    Small holes are filled with a run without a verb. So a request that acknowledges every second
    piece of the window costs one pass, not one pass for each piece.
    """
    group: list[AckRun] = []
    expected = 0
    for run in runs:
        if group and run.first > expected:
            if run.first - expected > NEAR_OFFSETS:
                yield group
                group = []
            else:
                group.append(AckRun(expected, run.first - 1, None))
        group.append(run)
        expected = run.last + 1
    if group:
        yield group


def _checked_types(batch: AckBatch, *, renew_allowed: bool) -> bytes:
    if batch.last < batch.first or batch.first < 0:
        raise InvalidRequest(f"Acknowledgement batch {batch.first}-{batch.last} is no range.")
    if len(batch.types) == 1 and (single := _SINGLE.get(batch.types[0])):
        return single
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


def _add(runs: list[AckRun], first: int, last: int, verb: Verb) -> None:
    if runs:
        before = runs[-1]
        if before[1] + 1 == first and before[2] is verb:
            runs[-1] = AckRun(before[0], last, verb)
            return
    runs.append(AckRun(first, last, verb))
