"""Write ``docs/metrics.md`` from the tables of metrics: ``python scripts/docs_metrics.py
[--check]``.

``--check`` writes nothing and fails if the page differs from the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from sharegroup.broker.metrics.authentication import AUTHENTICATION
from sharegroup.broker.metrics.coordination import COORDINATION
from sharegroup.broker.metrics.delivery import DELIVERY
from sharegroup.broker.metrics.lag import LAG
from sharegroup.broker.metrics.metric import Metric
from sharegroup.broker.metrics.node import NODE
from sharegroup.broker.metrics.quotas import QUOTAS
from sharegroup.broker.metrics.table import Table
from sharegroup.broker.metrics.traffic import TRAFFIC
from sharegroup.broker.metrics.transactions import TRANSACTIONS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

QUESTIONS = {
    "Are records stuck?": (
        "max by (group, topic) (sharegroup_share_partition_oldest_unacknowledged_seconds)"
    ),
    "How far behind is a group?": (
        "sum by (group, topic) (sharegroup_share_partition_lag_records)"
    ),
    "Do workers die, or take too long?": (
        "sum by (group) (rate(sharegroup_share_partition_lock_timeouts_total[5m]))"
    ),
    "Do workers refuse records?": (
        'sum by (group) (rate(sharegroup_acknowledged_records_total{type="reject"}[5m]))'
    ),
    "Are records given up?": (
        "sum by (group, topic, reason) (increase(sharegroup_archived_records_total[1h]))"
    ),
    "Are there dead letters that cannot be written?": "sharegroup_dead_letters_waiting > 0",
    "What do users wait for?": (
        "histogram_quantile(0.99, sum by (le, api) (rate(sharegroup_request_seconds_bucket[5m])))"
    ),
    "Does a transaction hold committed readers back?": (
        "sharegroup_transaction_oldest_open_seconds"
    ),
    "Is the disk slow?": "histogram_quantile(0.99, rate(sharegroup_flush_seconds_bucket[5m]))",
    "Is the process busy?": (
        "histogram_quantile(0.99, rate(sharegroup_event_loop_lag_seconds_bucket[5m]))"
    ),
}

INTRODUCTION = """\
# Metrics

This page is written by `scripts/docs_metrics.py` from the tables that the broker reads; edit those.

`sharegroup serve --metrics 127.0.0.1:9404` (or the setting `metrics.address`) serves metrics at
`http://127.0.0.1:9404/metrics`, in the text format of Prometheus or as OpenMetrics, whichever the
scraper prefers. The port answers everybody who reaches it. Beside it are
`/health/live` and `/health/ready` for probes; [deploy](deploy.md#health) says what they mean.

<!-- not run: a part of Prometheus's configuration -->
```
scrape_configs:
  - job_name: sharegroup
    static_configs:
      - targets: ["127.0.0.1:9404"]
```

What to look at first:

{questions}
A summary has a `_count` and a `_sum`, whose quotient is the mean. Metrics of a topic or a group go
when it is deleted; those of a share partition's window come and go with its object in memory.
The process itself (CPU, memory, open files, start time) has the usual `process_…` metrics.

The last column is Apache Kafka's own metric. Where Kafka has a meter, take `rate()` of the counter.
"""

ABSENT = {
    "`share-coordinator-metrics` thread-idle-ratio-min, -avg": (
        "there is one thread: see `sharegroup_event_loop_lag_seconds`"
    ),
    "`share-coordinator-metrics` batch-buffer-cache-size-bytes, -discard-count": (
        "no buffers are kept between writes"
    ),
    "`ShareSessionCache` evictions": "no session is evicted: one too many is refused",
}

SECTIONS: tuple[tuple[str, Table], ...] = (
    ("How far behind each share group is", LAG),
    ("Delivery", DELIVERY),
    ("Traffic", TRAFFIC),
    ("Quotas", QUOTAS),
    ("Authentication", AUTHENTICATION),
    ("Coordinators", COORDINATION),
    ("Transactions", TRANSACTIONS),
    ("Process and disk", NODE),
)


def page() -> str:
    """The whole page."""
    rows = ["| Question | Expression |", "| --- | --- |"]
    rows += [f"| {question} | `{expression}` |" for question, expression in QUESTIONS.items()]
    parts = [INTRODUCTION.replace("{questions}", "\n".join(rows) + "\n")]
    parts += [f"## {title}\n\n{_table(table.metrics)}" for title, table in SECTIONS]
    rows = ["| Apache Kafka | Why |", "| --- | --- |"]
    rows += [f"| {name} | {why} |" for name, why in ABSENT.items()]
    parts.append("## Apache Kafka's that have no counterpart\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _table(metrics: Iterable[Metric]) -> str:
    rows = [
        "| Name | Type | Labels | Unit | Meaning | Apache Kafka |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows.extend(
        f"| `{metric.name}` | {metric.kind.value} | {', '.join(metric.labels)} | {metric.unit} "
        f"| {metric.doc} | {metric.kafka} |"
        for metric in metrics
    )
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or check it; the exit status."""
    text = page()
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{PAGE.name} is not what the tables say: run scripts/docs_metrics.py")
        return 0 if fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
