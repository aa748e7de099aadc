"""Why a row of the table is worse than Apache Kafka's, as far as a profile or a test has shown it.

A reason stands beside its row only while the row is worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

NOT_KNOWN: Final = "not known yet"
LATE: Final = (
    "whoever joins after the first assignment is told of it by a heartbeat, 3 s later: "
    "a round takes 1.3 or 4.3 s on either broker"
)
SYNC: Final = "we sync before the answer, Kafka does not"
BUSY: Final = "both cores are busy with the producer's JVM; our broker uses less CPU than Kafka's"
READ: Final = "without TLS it goes from the file, under TLS it is read"
LARGE: Final = (
    "a request of 900 kB keeps the one thread that serves all for 1.2 ms; Kafka has several threads"
)
SLICES: Final = (
    "the request is handled in slices of 5 ms on the one thread that serves all; "
    "Kafka has several threads"
)
AS_ALONE: Final = (
    "no slower than alone; Kafka's JVM is cold in the row of those alone, and warm in this one"
)
WARM: Final = (
    "as quick in sessions of its own: 617,000 rows/s against 603,000 in the mean of three, with "
    "half of the server's CPU"
)
BOTH_QUICKER: Final = "Spark's own source takes less time on our broker, too"
NOISE: Final = "within the spread"
"""Said where no other reason is known, and the medians are no farther apart than both spreads."""

# Patterns of a row's key -> durable, flush.policy=system. The first that fits is taken.
REASONS: Final[dict[str, tuple[str, str]]] = {
    "client-poll": (SYNC, ""),
    "client-for": (SYNC, ""),
    "client-blocking-for": (SYNC, ""),
    "client-explicit": (SYNC, ""),
    "transactions-*": (SYNC, ""),
    "produce-*": (SYNC, ""),
    "grid-produce-1024-1-all-none": (f"{SYNC}: one producer waits for it", ""),
    "grid-produce-1024-100-all-none": (SYNC, BUSY),
    "grid-produce-1048376-100-all-none": (SYNC, ""),
    "grid-produce-1024-100-1-none": (BUSY, BUSY),
    "grid-produce-1024-1-all-lz4": (f"{SYNC}: one producer waits for it", BUSY),
    "grid-produce-1024-1-all-zstd": (SYNC, ""),
    "group-100-classic": (LATE, LATE),
    "share-explicit": ("each answer is durable before it is confirmed", ""),
    "secured-produce-plain": (f"{SYNC}: one producer waits for it", ""),
    "secured-produce-plain-cpu": ("fsync: 80 µs of CPU for 64 KiB", ""),
    "secured-produce-tls": (f"{SYNC}: one producer waits for it", ""),
    "secured-produce-tls-cpu": ("fsync: 80 µs of CPU for 64 KiB", ""),
    "secured-share-cost": (READ, READ),
    "secured-share-cost-cpu": (READ, READ),
    "latency-*-p50": (SYNC, ""),
    "lockstep-*": (
        "a record is two requests and two syncs: its batch, its acknowledgement",
        "a record is two requests, each dearer than Kafka's",
    ),
    "greedy-pipelining-*": (SYNC, ""),
    "greedy-small-produces-*": (
        "each of the neighbour's requests costs more CPU than Kafka's, and a sync",
        "each of the neighbour's requests costs more CPU than Kafka's",
    ),
    "greedy-produce-*": (LARGE, LARGE),
    "greedy-acknowledge-p50": (SLICES, SLICES),
    "greedy-*-p50": (f"{SYNC}; {AS_ALONE}", AS_ALONE),
    "spark-batch-ratio-large": (BOTH_QUICKER, BOTH_QUICKER),
    "spark-kafka-parquet-2": ("", WARM),
}


def reason(key: str, *, durable: bool) -> str:
    """Why the row is worse; NOT_KNOWN where nobody has found out."""
    for pattern, (with_sync, without) in REASONS.items():
        if fnmatchcase(key, pattern):
            return (with_sync if durable else without) or NOT_KNOWN
    return NOT_KNOWN


def without_row(keys: set[str]) -> Iterator[str]:
    """Patterns that fit none of these rows."""
    for pattern in REASONS:
        if not any(fnmatchcase(key, pattern) for key in keys):
            yield pattern
