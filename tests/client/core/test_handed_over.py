"""Records that a share consumer hands to a transaction."""

from __future__ import annotations

import pytest

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.handed_over import HandedOver, hand_over
from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.record import Record
from sharegroup.client.errors import IllegalState
from sharegroup.model.offsets import OffsetRange
from tests.client.core.test_holdings import (
    NAME,
    NOW_S,
    WHERE,
    delivery,
    explicit,
    implicit,
    keyed,
    ranges,
)


def given(holdings: Holdings) -> list[Record]:
    return list(holdings.next_records(10, NOW_S))


def handed(holdings: Holdings, *records: Record) -> HandedOver:
    return HandedOver("g", "m", hand_over(holdings, records), AckType.ACCEPT, None)


def test_the_consumer_says_nothing_of_them_and_keeps_their_locks() -> None:
    holdings = explicit(delivery(0, 3))
    records = given(holdings)
    part = handed(holdings, records[2], records[0], records[1])
    assert part.ranges() == {(NAME, WHERE): [OffsetRange(0, 2)]}
    holdings.decide([records[3]], AckType.ACCEPT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(3, 3, b"\1")]
    assert holdings.undecided() == [(WHERE, OffsetRange(0, 2))], "these are renewed"
    with pytest.raises(IllegalState, match="is in a transaction"):
        holdings.decide([records[0]], AckType.RELEASE)


def test_what_the_transaction_holds_is_its_own() -> None:
    holdings = explicit(delivery(0, 1))
    records = given(holdings)
    part = handed(holdings, *records)
    part.held()
    assert part.ranges() == {}
    part.give_back()
    assert ranges(holdings.settle()) == []
    assert holdings.undecided() == []
    with pytest.raises(IllegalState, match="was acknowledged before"):
        handed(holdings, records[0])


def test_what_it_does_not_hold_comes_back_and_can_be_tried_again() -> None:
    holdings = explicit(delivery(0, 1))
    records = given(holdings)
    handed(holdings, *records).give_back()
    handed(holdings, records[0]).held()
    assert ranges(holdings.settle()) == [AcknowledgedRange(1, 1, b"\2")], "the other is released"


def test_all_of_them_or_none() -> None:
    holdings, other = explicit(delivery(0, 2)), explicit(delivery(0, 0))
    records, [strange] = given(holdings), given(other)
    holdings.decide([records[1]], AckType.REJECT)
    with pytest.raises(IllegalState, match="was not returned by this consumer"):
        hand_over(holdings, [*records, strange])
    with pytest.raises(IllegalState, match="is in a transaction"):
        hand_over(holdings, [records[0], records[0]])
    holdings.decide([records[0], records[2]], AckType.ACCEPT)
    assert ranges(holdings.settle()) == [AcknowledgedRange(0, 2, b"\1\3\1")]


def test_not_in_implicit_mode_and_not_with_order_per_key() -> None:
    with pytest.raises(IllegalState, match="in implicit mode"):
        implicit(delivery(0, 0)).check_explicit()
    holdings = explicit(keyed(0, "a"))
    with pytest.raises(IllegalState, match="order per key"):
        hand_over(holdings, given(holdings))
