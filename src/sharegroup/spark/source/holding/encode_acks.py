"""Turns ranges with one type each into the ranges of a request. As Kafka's protocol allows,
neighbouring ranges become one range with a type for each offset. So a million changing answers are
one range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.spark.source.offsets import Done

LONG: Final = 16
"""More offsets of one type than these get a range of their own, which is shorter then."""
_TYPES: Final = [bytes([kind]) * LONG for kind in range(5)]


def worded(ranges: Iterable[Done]) -> Iterator[AcknowledgedRange]:
    """The acknowledgements of ``ranges``, which ascend, in fewer ranges."""
    first = end = 0
    types: list[bytes] = []
    for one in ranges:
        size = one[1] - one[0] + 1
        if types and (one[0] != end or size > LONG):
            yield AcknowledgedRange(first, end - 1, b"".join(types))
            types = []
        if size > LONG:
            yield AcknowledgedRange(one[0], one[1], _TYPES[one[2]][:1])
            continue
        if not types:
            first = one[0]
        types.append(_TYPES[one[2]][:size])
        end = one[1] + 1
    if types:
        yield AcknowledgedRange(first, end - 1, b"".join(types))
