"""The curves of a query's picture: a number for each batch, None if it is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sharegroup.spark.report.checkpoint import ReportedBatch


@dataclass(frozen=True, slots=True)
class Series:
    """One curve."""

    name: str
    unit: str
    of: Callable[[ReportedBatch], float | None]


ROWS: Final = Series("records", "", lambda batch: batch.records)
ACQUIRE: Final = Series("acquire", "s", lambda batch: batch.acquire_s)
RUN: Final = Series("run", "s", lambda batch: batch.run_s)
SETTLE: Final = Series("settle", "s", lambda batch: batch.settle_s)
LAG: Final = Series("lag", "", lambda batch: batch.lag)
REDELIVERED: Final = Series("redelivered", "", lambda batch: batch.redelivered)
RENEWED: Final = Series("renewed", "", lambda batch: batch.number_of("renewed"))
RELEASED: Final = Series("released", "", lambda batch: batch.number_of("released"))
REJECTED: Final = Series("rejected", "", lambda batch: batch.number_of("rejected"))
UNCONFIRMED: Final = Series("unconfirmed", "", lambda batch: sum(batch.unconfirmed.values()))

ALL: Final = (
    ROWS, ACQUIRE, RUN, SETTLE, LAG, REDELIVERED, RENEWED, RELEASED, REJECTED, UNCONFIRMED,
)  # fmt: skip
