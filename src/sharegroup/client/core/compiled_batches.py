"""Record batches by aiokafka's compiled code: the one place that knows its internals.

They are no public API of aiokafka. `tests/client/test_damaged_batches.py` and the producer's tests
hold what is used of them: a builder with ``append`` and ``build``, a reader that iterates over
records, and a walk over the batches of a fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

_MAGIC: Final = 2


def new_builder(codec: int, bytes_max: int, *, transactional: bool = False) -> Any:
    """A builder of one batch, whose base offset is 0.

    Its ``append(offset, timestamp_ms, key, value, headers)`` returns None when the record would
    make the batch larger than ``bytes_max``; a first record always fits. ``build()`` returns the
    batch, compressed with ``codec``; producer id, epoch and sequence are -1.
    """
    return DefaultRecordBatchBuilder(_MAGIC, codec, int(transactional), -1, -1, -1, bytes_max)


def batches_in(data: bytes) -> Iterator[Any]:
    """The batches of a fetch; iterating over one gives its records.

    It trusts ``data``: check it before.
    """
    return iter(MemoryRecords(data).next_batch, None)


def records_in(batch: bytes) -> list[Any]:
    """The records of one batch, which is not compressed. It trusts ``batch``: check it before.

    Raises:
        UnicodeDecodeError: a header's key is not UTF-8.
    """
    return list(DefaultRecordBatch(batch))
