"""Arrow record batches for the application, and its answers for whole batches.

No code here goes through records one by one: an answer for a million records is a few operations on
arrays. Needs NumPy and PyArrow (``pip install 'sharegroup[arrow]'``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sharegroup.arrow.answers import NOTHING, answer_codes
from sharegroup.arrow.record_places import Places, places_in
from sharegroup.arrow.records import Bytes, Ints
from sharegroup.arrow.schema import column_names
from sharegroup.client.core.acknowledgements import RENEWING, SENT, AckType
from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.record import HeldDelivery
from sharegroup.client.core.setting_checks import check_positive
from sharegroup.client.errors import IllegalState
from sharegroup.client.records.arrow_decode import ArrowDecoding, RecordBatch, decode_arrow
from sharegroup.client.records.decode import Decoding
from sharegroup.client.share.fetcher import ShareFetchSettings
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition, TopicPartition

ArrowRows: TypeAlias = Any
"""Rows with the columns topic, partition and offset: a ``pyarrow.RecordBatch`` or ``Table``, or an
object that exports Arrow data (``__arrow_c_stream__``), such as a Polars or pandas frame."""
Answers: TypeAlias = Any
"""One answer for all rows, or a column with one answer for each."""

_CLOSED = {
    AckType.GAP: "was not delivered",
    SENT: "was acknowledged before",
    RENEWING: "comes again first",
}
"""Types of offsets that cannot be acknowledged, and why."""
_IS_OPEN = np.ones(256, np.bool_)
_IS_OPEN[list(_CLOSED)] = False


class ArrowForm:
    """The form of the batches of one ``arrow_batches()``.

    Args:
        max_records: about how many rows a batch has.
        include_headers: add the column headers.
        decoding: the consumer's decoding.

    Raises:
        ConfigError: ``max_records`` is less than 1, or there are deserializers.
    """

    def __init__(self, max_records: int, include_headers: bool, decoding: Decoding) -> None:
        if not decoding.plain:
            raise ConfigError(
                "Arrow batches hold keys and values as bytes: leave key_deserializer and "
                "value_deserializer out"
            )
        self._decoding = ArrowDecoding(
            column_names(include_headers),
            check_positive("max_records", max_records),
            check_crcs=decoding.check_crcs,
        )
        self.name = "Arrow batches" + (" with headers" if include_headers else "")

    def settings(self, settings: ShareFetchSettings) -> ShareFetchSettings:
        """The fetch settings for this form."""
        decode = partial(decode_arrow, decoding=self._decoding)
        return replace(settings, max_records=self._decoding.rows_wanted, decode=decode)

    def take(self, holdings: Holdings, now_s: float) -> RecordBatch | None:
        """The next rows, sorted by topic, partition and offset; None when there are none.

        Raises:
            CorruptRecordBatch: the next batch cannot be read. It counts as handed out.
        """
        parts: list[RecordBatch] = [one.records for one in holdings.take_renewed()]
        if not parts:
            given = holdings.next_deliveries(self._decoding.rows_max, now_s)
            given.sort(key=lambda delivery: (delivery.topic_partition, delivery.first))
            parts = [delivery.records for delivery in given]
        if len(parts) < 2:
            return parts[0] if parts else None
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def answer_rows(
    holdings: Holdings, table: Any, answers: Any
) -> list[tuple[TopicIdPartition, Ints]]:
    """Acknowledge the records that ``table`` names, with ``answers``. If one record cannot be
    acknowledged, no record is. Returns the offsets that were acknowledged.

    Args:
        table: as :func:`sharegroup.arrow.record_places.places_in` takes it.
        answers: as :func:`sharegroup.arrow.answers.answer_codes` takes them; rows with null stay
            unacknowledged.

    Raises:
        IllegalState: the mode is implicit, or a record is not waiting for an acknowledgement.
        TypeError, ValueError: ``table`` or ``answers`` cannot be read.
    """
    holdings.check_explicit()
    places = places_in(table)
    codes = answer_codes(answers, sum(len(one.offsets) for one in places))
    hands = holdings.in_hands()
    changes = [
        change
        for one in places
        for change in _changes(one, codes[one.rows], hands.get(_name(one), []))
    ]
    for delivery, indices, types in changes:
        np.frombuffer(delivery.types, np.uint8)[indices] = types
    return [(one.delivery.partition, one.indices + one.delivery.first) for one in changes]


class _Change(NamedTuple):
    delivery: HeldDelivery
    indices: Ints
    types: Bytes


def _changes(places: Places, codes: Bytes, hands: Sequence[HeldDelivery]) -> list[_Change]:
    """The types to set: for each delivery, its offsets and their new types."""
    offsets = places.offsets
    waits = codes != NOTHING
    if not waits.all():
        offsets, codes = offsets[waits], codes[waits]
    left = np.ones(len(offsets), np.bool_)
    found = []
    for delivery in hands:
        start, end = np.searchsorted(offsets, [delivery.first, delivery.last + 1])
        if start == end:
            continue
        indices = offsets[start:end] - delivery.first
        takes = _IS_OPEN[np.frombuffer(delivery.types, np.uint8)[indices]]
        left[start:end] &= ~takes
        found.append(_Change(delivery, indices[takes], codes[start:end][takes]))
    if left.any():
        offset = int(offsets[np.flatnonzero(left)[0]])
        raise IllegalState(f"offset {offset} of {_name(places)} {_reason(offset, hands)}")
    return found


def _reason(offset: int, hands: Sequence[HeldDelivery]) -> str:
    for delivery in reversed(hands):
        if delivery.first <= offset <= delivery.last:
            return _CLOSED[delivery.types[offset - delivery.first]]
    return "is not waiting for an acknowledgement"


def _name(places: Places) -> TopicPartition:
    return TopicPartition(places.topic, places.partition)
