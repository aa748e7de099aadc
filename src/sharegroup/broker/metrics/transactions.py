"""The transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sharegroup.broker.coordination.runtime import Runtime
from sharegroup.broker.metrics.table import Labels, Scrape, Table
from sharegroup.transactions.transaction import AT_REST, PREPARED, TransactionStage

_STATES: Final = sorted({TransactionStage.ONGOING} | PREPARED | AT_REST)


def _by_state(scrape: Scrape) -> Mapping[str, int]:
    by_state = scrape.parts.views.transactions.by_state()
    return {state.label: by_state[state] for state in _STATES}


def _ended(scrape: Scrape) -> Mapping[str, int]:
    ended = scrape.parts.transactions.ended
    return {"commit": ended[True], "abort": ended[False]}


def _partitions(scrape: Scrape) -> Iterator[tuple[Runtime, Labels]]:
    for partition, runtime in enumerate(scrape.parts.transactions.runtimes):
        yield runtime, (str(partition),)


TRANSACTIONS: Final = Table()
COORDINATOR: Final = TRANSACTIONS.whole()
BY_PARTITION: Final = TRANSACTIONS.source(("partition",), _partitions)

COORDINATOR.gauge(
    "sharegroup_transactional_ids",
    "Transactional ids by state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, "
    "CompleteAbort. In a Prepare state markers are missing yet.",
    _by_state,
    labels=("state",),
    kafka="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
    "name=UnknownDestinationQueueSize and LogAppendRetryQueueSize: of the Prepare states",
)
COORDINATOR.gauge(
    "sharegroup_transaction_oldest_open_seconds",
    "How long the oldest open transaction has been open; 0 when none is. Committed readers wait "
    "for it.",
    lambda scrape: (scrape.parts.views.transactions.oldest_open_ms() or 0) / 1000,
    unit="seconds",
    kafka="kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount: when this "
    "passes the longest time-out",
)
COORDINATOR.counter(
    "sharegroup_transactions_completed",
    "Transactions whose markers are all written, by outcome: commit, abort.",
    _ended,
    labels=("outcome",),
)
COORDINATOR.counter(
    "sharegroup_transaction_timeouts",
    "Transactions that the coordinator has aborted because they passed transaction.timeout.ms.",
    lambda scrape: scrape.parts.transactions.timed_out,
)
COORDINATOR.counter(
    "sharegroup_transaction_fenced_requests",
    "Requests of producers that another one with the same transactional id was put in place of.",
    lambda scrape: scrape.parts.transactions.fenced,
)
BY_PARTITION.histogram(
    "sharegroup_transaction_log_write_seconds",
    "Decisions about transactions, until they are durable.",
    lambda runtime: runtime.write_seconds,
)
BY_PARTITION.histogram(
    "sharegroup_transaction_log_load_seconds",
    "Loading a partition of the transaction log.",
    lambda runtime: runtime.load_seconds,
    kafka="kafka.server:type=transaction-coordinator-metrics partition-load-time-avg, "
    "partition-load-time-max",
)
