"""Parse acknowledgements: acknowledgement batches become answers, with one byte per offset.

Checks here need only the window's bounds, not its content (KIP-932 "ShareAcknowledge", Kafka
classes KafkaApis and SharePartition). A batch has one type for its range or one per offset. Some
clients send a batch for each change of type, so a request may have very many batches of one offset
each: they are handled as columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import le, lt, mul, sub
from typing import Final, NamedTuple, TypeAlias

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.record_state import AckType

_TYPES = bytes(AckType)
_RENEW = bytes([AckType.RENEW])
_ONE_BYTE = [bytes([kind]) for kind in range(256)]
_TEXTS = {kind: bytes([kind]) for kind in _TYPES}

SILENT: Final = 7
"""In the types of an :class:`Answer`: the request does not name this offset, it stays as it is."""
NEAR: Final = 256
"""Batches with at most this many offsets between them become one answer: to step over the hole
costs less than a second pass."""
_SILENCE: Final = [bytes([SILENT]) * max(0, step - 1) for step in range(NEAR + 1)]
"""By the step from one batch's last offset to the next one's first: SILENT for those between."""
_SIZE: Final = (1).__add__
SHORT: Final = 512
"""Only batches of at most this many offsets are joined: a longer one may have one byte for all."""

AckBatch: TypeAlias = tuple[int, int, Sequence[int]]
"""One acknowledgement batch: its first offset, its last, and one type for all or one for each."""


class Answer(NamedTuple):
    """The acknowledgement of offsets ``first`` … ``last``: one type for all, or for each offset a
    type or :data:`SILENT`."""

    first: int
    last: int
    types: bytes
    pause_ms: int | None = None
    """How long the records that are released rest; None: as the group's back-off says."""


def checked_answers(
    batches: Sequence[AckBatch], *, start: int, end: int, renew_allowed: bool
) -> list[Answer]:
    """``batches`` as answers inside the window ``start`` … ``end - 1``: ascending, disjoint.

    Offsets below ``start`` are finished already and are ignored. ``renew_allowed``: whether the
    request may carry RENEW (version 2 with IsRenewAck).

    Raises:
        InvalidRequest: a batch is malformed, begins before the last offset of the one before it, or
            ends past the window.
        InvalidRecordState: nothing is in flight, or a batch begins with the last offset of the one
            before it: in Kafka the first one has finished that record when the second one comes.
    """
    if not batches:
        return []
    if len(batches) == 1 and (answer := _plain(batches[0], start, end, renew_allowed)):
        return [answer]
    firsts, lasts, types = zip(*batches, strict=True)
    if min(firsts) < 0 or not all(map(le, firsts, lasts)):
        first, last = next(b[:2] for b in batches if not 0 <= b[0] <= b[1])
        raise InvalidRequest(f"Acknowledgement batch {first}-{last} is not a range of offsets.")
    texts = _checked_types(batches, types, renew_allowed=renew_allowed)
    shared = _shared(firsts, lasts)
    if lasts[-1] < start:
        return []
    if start == end:
        first = next(first for first, last in zip(firsts, lasts, strict=True) if last >= start)
        raise InvalidRecordState(f"Offset {first} is not among the acquired records.")
    if lasts[-1] >= end:
        last = next(last for last in lasts if last >= end)
        raise InvalidRequest(f"Offset {last} is past the acquired records.")
    if shared and shared[-1] >= start:
        raise InvalidRecordState(f"Offset {shared[-1]} is acknowledged twice.")
    if len(firsts) == 1:
        return [_from(Answer(firsts[0], lasts[0], texts[0]), start)]
    if firsts[0] >= start and _are_near(firsts, lasts):
        return [_one(firsts, lasts, texts)]
    above = bisect_left(lasts, start)
    lowest = _from(Answer(firsts[above], lasts[above], texts[above]), start)
    return list(
        _together(
            (lowest.first, *firsts[above + 1 :]),
            lasts[above:],
            [lowest.types, *texts[above + 1 :]],
        )
    )


def _shared(firsts: Sequence[int], lasts: Sequence[int]) -> Sequence[int]:
    """The offsets with which one batch ends and the next one begins, ascending.

    Raises:
        InvalidRequest: a batch begins before that.
    """
    if all(map(lt, lasts, firsts[1:])):
        return ()
    steps = [*zip(lasts, firsts[1:], strict=False)]
    for last, after in steps:
        if after < last:
            raise InvalidRequest(f"Acknowledgement batch at {after} overlaps another one.")
    return [after for last, after in steps if after == last]


def _plain(batch: AckBatch, start: int, end: int, renew_allowed: bool) -> Answer | None:
    """The answer for a batch of one type, the most common kind; None if it needs all checks."""
    first, last, types = batch
    text = _TEXTS.get(types[0]) if len(types) == 1 else None
    if text is None or not start <= first <= last < end or (text == _RENEW and not renew_allowed):
        return None
    return Answer(first, last, text)


def _are_near(firsts: Sequence[int], lasts: Sequence[int]) -> bool:
    """Whether ascending ranges, at least two, are all short and near each other."""
    gap: int = max(map(sub, firsts[1:], lasts))
    longest: int = max(map(sub, lasts, firsts))
    return gap <= NEAR and longest < SHORT


def _from(answer: Answer, start: int) -> Answer:
    first, last, types, _ = answer
    if first >= start:
        return answer
    return Answer(start, last, types if len(types) == 1 else types[start - first :])


def _together(
    firsts: Sequence[int], lasts: Sequence[int], texts: Sequence[bytes]
) -> Iterator[Answer]:
    """Ascending answers. Short batches that are near each other become one answer."""
    breaks = {at for at, gap in enumerate(map(sub, firsts[1:], lasts), 1) if gap > NEAR}
    for at, size in enumerate(map(sub, lasts, firsts)):
        if size >= SHORT:
            breaks |= {at, at + 1}
    breaks -= {0, len(firsts)}
    for begin, end in pairwise((0, *sorted(breaks), len(firsts))):
        if end == begin + 1:
            yield Answer(firsts[begin], lasts[begin], texts[begin])
        else:
            yield _one(firsts[begin:end], lasts[begin:end], texts[begin:end])


def _one(firsts: Sequence[int], lasts: Sequence[int], texts: Sequence[bytes]) -> Answer:
    """One answer for ascending batches, at least two, with SILENT between them."""
    sizes = [*map(_SIZE, map(sub, lasts, firsts))]
    # What adjoins is joined, all of it at C speed: types of a batch, silence, types of a batch, …
    parts = [b""] * (2 * len(firsts) - 1)
    if max(map(len, texts)) == 1:
        parts[::2] = map(mul, texts, sizes)
    else:
        parts[::2] = [
            text * size if len(text) == 1 else text for text, size in zip(texts, sizes, strict=True)
        ]
    parts[1::2] = map(_SILENCE.__getitem__, map(sub, firsts[1:], lasts))
    return Answer(firsts[0], lasts[-1], b"".join(parts))


def _checked_types(
    batches: Sequence[AckBatch], types: Sequence[Sequence[int]], *, renew_allowed: bool
) -> list[bytes]:
    single = set(map(len, types)) == {1}
    try:
        if single:
            all_types = bytes(chain.from_iterable(types))
            texts = [*map(_ONE_BYTE.__getitem__, all_types)]
        else:
            texts = list(map(bytes, types))
            all_types = b"".join(texts)
    except ValueError:
        raise InvalidRequest("An acknowledgement type is out of range.") from None
    for (first, last, _), text in () if single else zip(batches, texts, strict=True):
        if len(text) != 1 and len(text) != last - first + 1:
            raise InvalidRequest(
                f"Acknowledgement batch {first}-{last} has {len(text)} types;"
                " one for all or one for each offset is expected."
            )
    if unknown := all_types.translate(None, _TYPES):
        raise InvalidRequest(f"Acknowledgement type {unknown[0]} is unknown.")
    if not renew_allowed and _RENEW in all_types:
        raise InvalidRequest("RENEW is allowed only in a request marked for renewal.")
    return texts


def with_pauses(
    answers: Iterable[Answer], pauses: Sequence[tuple[int, int, int]]
) -> Iterator[Answer]:
    """``answers``, cut where the member asks for a pause.

    Args:
        pauses: first and last offset, and the pause in milliseconds. Where two have an offset in
            common, the first in the order of offsets holds.
    """
    waiting = sorted(pauses)
    at = 0
    for answer in answers:
        offset = answer.first
        while offset <= answer.last:
            while at < len(waiting) and waiting[at][1] < offset:
                at += 1
            if at == len(waiting) or waiting[at][0] > answer.last:
                yield _part(answer, offset, answer.last, None)
                break
            first, last, pause_ms = waiting[at]
            if first > offset:
                yield _part(answer, offset, first - 1, None)
                offset = first
            last = min(last, answer.last)
            yield _part(answer, offset, last, pause_ms)
            offset = last + 1


def _part(answer: Answer, first: int, last: int, pause_ms: int | None) -> Answer:
    types = answer.types
    if len(types) > 1:
        types = types[first - answer.first : last - answer.first + 1]
        if len(types) == 1 or types.count(types[0]) == len(types):
            types = types[:1]
    return Answer(first, last, types, pause_ms)
