"""The fast path over the batches of a fetch: it reads what is plain, good and in order, and leaves
all else to the careful way.
"""

from __future__ import annotations

import pytest

from sharegroup.client.records.batch_reader import pieces_of
from sharegroup.records import record_codec
from sharegroup.records.pure_codec import PURE
from tests.records.bad import ZSTD, lies, of, packed
from tests.records.making import batch_of, record, records

GOOD = batch_of(records(3), 3)
AFTER = batch_of(records(3), 3, base_offset=3)


@pytest.fixture(params=["in use", "pure"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(record_codec, "IN_USE", PURE)


def counts(run: bytes) -> list[int] | None:
    """How many records each batch has, if the fast path reads the run."""
    pieces = pieces_of(run, True, lambda first, last: True)
    return None if pieces is None else [len(one.value or ()) for one in pieces]


def test_a_run_of_good_batches_is_read_up_to_one_that_is_cut_off() -> None:
    assert counts(GOOD + AFTER) == [3, 3]
    assert counts(GOOD) == counts(GOOD + AFTER[:-1]) == counts(GOOD + AFTER[:70]) == [3]
    assert counts(b"") == counts(GOOD[:60]) == []


def test_any_other_run_is_left_to_the_careful_way() -> None:
    for name, (bad, _) in lies().items():
        assert counts(bad) is None, name
        assert counts(GOOD + bad + AFTER) is None, name
    for run in (
        AFTER + GOOD,
        GOOD + GOOD,
        of(ZSTD, packed(ZSTD, records(3)), 3),
        batch_of(records(1), 1, base_offset=-1),
        batch_of(records(1), 1, base_offset=2**63 - 1),
        batch_of(b"", -1, last_delta=3),
        batch_of(b"", 0, last_delta=-1),
        GOOD[:16] + b"\1" + GOOD[17:],
        GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:],
        GOOD[:8] + b"\0\0\0\x30" + GOOD[12:],
        GOOD[:17] + b"\0\0\0\0" + GOOD[21:],
    ):
        assert counts(run) is None


def test_what_is_not_wanted_is_neither_read_nor_checked() -> None:
    bad = batch_of(records(2) + b"\0", 3, base_offset=3)
    pieces = pieces_of(GOOD + bad, True, lambda first, last: last < 3)
    assert pieces is not None
    assert [(one.first, one.last, one.value is None) for one in pieces] == [
        (0, 2, False),
        (3, 5, True),
    ]
    assert counts(GOOD + bad) is None


def test_a_checksum_counts_only_if_it_is_asked_for() -> None:
    unsealed = GOOD[:17] + b"\0\0\0\0" + GOOD[21:]
    pieces = pieces_of(unsealed, False, lambda first, last: True)
    assert pieces is not None
    assert len(pieces[0].value or ()) == 3


def test_control_batches_and_gaps_have_no_records() -> None:
    control = batch_of(record(0), 1, attributes=0x20)
    sparse = batch_of(record(1) + record(4), 2, last_delta=5, base_offset=1)
    pieces = pieces_of(control + sparse, True, lambda first, last: True)
    assert pieces is not None
    assert pieces[0].value is None
    assert (pieces[1].first, pieces[1].last) == (1, 6)
    assert [one[0] for one in pieces[1].value or ()] == [2, 5]
