"""Kafka's producer snapshot file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.storage.producer_snapshot import decode, encode
from sharegroup.transactions.producers import ProducedBatch, ProducerEntry

BATCHES = st.builds(
    ProducedBatch,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
ENTRIES = st.lists(
    st.builds(
        ProducerEntry,
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**63 - 1),
        st.integers(0, 2**31 - 1),
        st.integers(-1, 2**62),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**63 - 1),
        st.lists(BATCHES, max_size=4).map(tuple),
    ),
    unique_by=lambda entry: entry.producer_id,
)


@given(entries=ENTRIES)
def test_it_round_trips(entries: list[ProducerEntry]) -> None:
    assert decode(encode(entries)) == entries


def test_damage_is_detected() -> None:
    data = encode([ProducerEntry(1, 2, 3, 4, 0, 5)])
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1
        with pytest.raises(ValueError, match="snapshot"):
            decode(bytes(bad))
        with pytest.raises(ValueError, match="snapshot"):
            decode(data[:position])
