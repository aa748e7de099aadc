"""The transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Sample, counter, gauge, histogram
from sharegroup.broker.parts import BrokerParts
from sharegroup.transactions.transaction import AT_REST, PREPARED, TransactionStage

IDS: Final = gauge(
    "sharegroup_transactional_ids",
    "Transactional ids by state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, "
    "CompleteAbort. In a Prepare state markers are missing yet.",
    labels=("state",),
    kafka="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
    "name=UnknownDestinationQueueSize and LogAppendRetryQueueSize: of the Prepare states",
)
OLDEST: Final = gauge(
    "sharegroup_transaction_oldest_open_seconds",
    "How long the oldest open transaction has been open; 0 when none is. Committed readers wait "
    "for it.",
    unit="seconds",
    kafka="kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount: when this "
    "passes the longest time-out",
)
ENDED: Final = counter(
    "sharegroup_transactions_completed",
    "Transactions whose markers are all written, by outcome: commit, abort.",
    labels=("outcome",),
)
TIMED_OUT: Final = counter(
    "sharegroup_transaction_timeouts",
    "Transactions that the coordinator has aborted because they passed transaction.timeout.ms.",
)
FENCED: Final = counter(
    "sharegroup_transaction_fenced_requests",
    "Requests of producers that another one with the same transactional id was put in place of.",
)
WRITE_SECONDS: Final = histogram(
    "sharegroup_transaction_log_write_seconds",
    "Decisions about transactions, until they are durable.",
    labels=("partition",),
)
LOAD_SECONDS: Final = histogram(
    "sharegroup_transaction_log_load_seconds",
    "Loading a partition of the transaction log.",
    labels=("partition",),
    kafka="kafka.server:type=transaction-coordinator-metrics partition-load-time-avg, "
    "partition-load-time-max",
)

METRICS: Final = (IDS, OLDEST, ENDED, TIMED_OUT, FENCED, WRITE_SECONDS, LOAD_SECONDS)

_STATES: Final = sorted({TransactionStage.ONGOING} | PREPARED | AT_REST)


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    transactions = parts.transactions
    by_state = parts.views.transactions.by_state()
    for state in _STATES:
        yield IDS.of(by_state[state], state.label)
    yield OLDEST.of((parts.views.transactions.oldest_open_ms() or 0) / 1000)
    for committed, outcome in ((True, "commit"), (False, "abort")):
        yield ENDED.of(transactions.ended[committed], outcome)
    yield TIMED_OUT.of(transactions.timed_out)
    yield FENCED.of(transactions.fenced)
    for partition, runtime in enumerate(transactions.runtimes):
        yield WRITE_SECONDS.of(runtime.write_seconds, str(partition))
        yield LOAD_SECONDS.of(runtime.load_seconds, str(partition))
