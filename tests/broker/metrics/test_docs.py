from __future__ import annotations

from scripts import docs_metrics
from sharegroup.broker.metrics.reader import METRICS


def test_the_page_is_what_the_tables_say() -> None:
    assert docs_metrics.main(["--check"]) == 0


def test_every_metric_is_on_the_page() -> None:
    page = docs_metrics.page()
    for metric in METRICS:
        assert f"| `{metric.name}` |" in page
