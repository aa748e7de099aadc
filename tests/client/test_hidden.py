"""What a committed reader leaves out of a fetch, where the bytes behind it are damaged."""

from __future__ import annotations

from sharegroup.client.records.hidden import hidden_ranges
from sharegroup.model.log import AbortedTransaction
from sharegroup.wire.batch import HEADER_BYTES, TRANSACTIONAL, encode_batch

PRODUCER = 7
ABORTED = [AbortedTransaction(PRODUCER, 0)]
VOID = encode_batch(
    [(None, b"void")],
    timestamp_ms=0,
    producer_id=PRODUCER,
    producer_epoch=0,
    base_sequence=0,
    attributes=TRANSACTIONAL,
)
NO_BATCH = bytes(HEADER_BYTES)
"""Its length is 0, which none can have: where the next one begins is not known."""


def test_a_damaged_batch_is_the_last_that_is_known() -> None:
    damaged = VOID[:-1] + b"x"
    data = VOID + damaged + VOID
    assert hidden_ranges(data, ABORTED, check_crcs=True) == ([(0, 0)], VOID + damaged)
    assert hidden_ranges(damaged + VOID, ABORTED, check_crcs=True) == ([], damaged)


def test_behind_bytes_that_are_no_batch_nothing_is_known() -> None:
    assert hidden_ranges(VOID + NO_BATCH, ABORTED, check_crcs=True) == ([(0, 0)], VOID)
    assert hidden_ranges(NO_BATCH, ABORTED, check_crcs=True) == ([], NO_BATCH)
