"""Parse acknowledgements: acknowledgement batches become answers, with one byte per offset.

Checks here need only the window's bounds, not its content (KIP-932 "ShareAcknowledge", Kafka
classes KafkaApis and SharePartition). A batch has one type for its range or one per offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.record_state import AckType

_TYPES = bytes(AckType)
_RENEW = bytes([AckType.RENEW])
_SINGLE = {int(kind): bytes([kind]) for kind in AckType if kind is not AckType.RENEW}

SILENT: Final = 7
"""In the types of an :class:`Answer`: nothing is said about this offset, it stays as it is."""
NEAR: Final = 16
"""Batches with at most this many offsets between them become one answer: to step over the hole
costs less than a second pass."""
SHORT: Final = 512
"""Only batches of at most this many offsets do; a long one stays one byte for its range."""
_HOLES = [bytes([SILENT]) * size for size in range(NEAR + 1)]


class AckBatch(NamedTuple):
    """One acknowledgement batch: offsets ``first`` … ``last``, one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Answer(NamedTuple):
    """What is said about the offsets ``first`` … ``last``: one type for all, or a type or
    :data:`SILENT` for each."""

    first: int
    last: int
    types: bytes


def checked_answers(
    batches: Iterable[AckBatch], *, start: int, end: int, renew_allowed: bool
) -> list[Answer]:
    """What ``batches`` say inside the window ``start`` … ``end - 1``: ascending, disjoint.

    Offsets below ``start`` are finished already and are ignored. ``renew_allowed``: whether the
    request may carry RENEW (version 2 with IsRenewAck).

    Raises:
        InvalidRequest: a batch is malformed, overlaps the one before it, or ends past the window.
            Kafka does not see an overlap of exactly one offset here, and fails later with
            InvalidRecordState; we refuse it like any other.
        InvalidRecordState: nothing is in flight.
    """
    said = [
        Answer(first, last, _checked_types(first, last, types, renew_allowed=renew_allowed))
        for first, last, types in batches
    ]
    previous_last = -1
    for first, last, _ in said:
        if first <= previous_last:
            raise InvalidRequest(f"Acknowledgement batch at {first} overlaps another one.")
        previous_last = last
    if said and said[0].first < start:
        said = [_from(answer, start) for answer in said if answer.last >= start]
    if said and start == end:
        raise InvalidRecordState(f"Offset {said[0].first} is not among the acquired records.")
    if said and previous_last >= end:
        beyond = next(answer.last for answer in said if answer.last >= end)
        raise InvalidRequest(f"Offset {beyond} is past the acquired records.")
    return list(_together(said))


def _from(answer: Answer, start: int) -> Answer:
    first, last, types = answer
    if first >= start:
        return answer
    return Answer(start, last, types if len(types) == 1 else types[start - first :])


def _together(said: list[Answer]) -> Iterator[Answer]:
    """Answers that are short and near each other as one."""
    group: list[Answer] = []
    expected = 0
    for answer in said:
        first, last, _ = answer
        short = last - first < SHORT
        if group and not (short and first - expected <= NEAR):
            yield _one(group)
            group = []
        group.append(answer)
        expected = last + 1
        if not short:
            yield _one(group)
            group = []
    if group:
        yield _one(group)


def _one(group: list[Answer]) -> Answer:
    """Ascending answers as one, with SILENT between them."""
    if len(group) == 1:
        return group[0]
    parts = []
    expected = group[0].first
    for first, last, types in group:
        if first > expected:
            parts.append(_HOLES[first - expected])
        parts.append(types if len(types) > 1 or first == last else types * (last - first + 1))
        expected = last + 1
    return Answer(group[0].first, expected - 1, b"".join(parts))


def _checked_types(first: int, last: int, types: Sequence[int], *, renew_allowed: bool) -> bytes:
    if last < first or first < 0:
        raise InvalidRequest(f"Acknowledgement batch {first}-{last} is no range.")
    if len(types) == 1 and (single := _SINGLE.get(types[0])):
        return single
    if len(types) not in (1, last - first + 1):
        raise InvalidRequest(
            f"Acknowledgement batch {first}-{last} has {len(types)} types;"
            " one for all or one for each offset is expected."
        )
    try:
        checked = bytes(types)
    except ValueError:
        raise InvalidRequest("An acknowledgement type is out of range.") from None
    if unknown := checked.translate(None, _TYPES):
        raise InvalidRequest(f"Acknowledgement type {unknown[0]} is unknown.")
    if not renew_allowed and _RENEW in checked:
        raise InvalidRequest("RENEW is allowed only in a request marked for renewal.")
    return checked
