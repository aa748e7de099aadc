"""What a Spark query tells of itself: a record that its listener writes and the console reads.

The key is the query's id, and the value an object of JSON. Spark's times are text; here they are
numbers, in milliseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

QUERY_TOPIC: Final = "spark-progress"
"""Where listeners write and consoles look, unless they are told otherwise."""
RUNNING: Final = "running"
ENDED: Final = "ended"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """See the module.

    Attributes:
        query_id, run_id: of the query and of this start of it.
        name: the query's name; None: it has none.
        state: ``running``, ``ended`` or ``failed``.
        at_ms: when it said so.
        batch: the last batch; None: there was none yet.
        rows: the records of this batch.
        rows_per_s: how fast Spark processed it.
        batch_ms: how long it took.
        error: why it has failed; None: it has not.
        groups: share group → the numbers of its source, see ``lastProgress`` in docs/spark.md.
    """

    query_id: str
    run_id: str
    name: str | None
    state: str
    at_ms: int
    batch: int | None = None
    rows: int | None = None
    rows_per_s: float | None = None
    batch_ms: int | None = None
    error: str | None = None
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The value of the record."""
        return json.dumps(asdict(self)).encode()


_NAMES: Final = frozenset(one.name for one in fields(QueryReport))
_TEXTS: Final = ("query_id", "run_id", "state")


def report_of(value: bytes | None) -> QueryReport | None:
    """The report in the value of a record; None: the record is something else."""
    try:
        found = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("at_ms"), int):
        return None
    groups = found.get("groups", {})
    if not all(isinstance(found.get(name), str) for name in _TEXTS) or not (
        isinstance(groups, dict) and all(isinstance(one, dict) for one in groups.values())
    ):
        return None
    # A later version may tell more.
    return QueryReport(**{"name": None} | {n: v for n, v in found.items() if n in _NAMES})
