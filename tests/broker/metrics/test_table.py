"""A metric is declared once: its table lists it and reads it by the function of its declaration."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, cast

from sharegroup.broker import metrics
from sharegroup.broker.metrics.metric import Summed
from sharegroup.broker.metrics.reader import TABLES
from sharegroup.broker.metrics.table import Scrape, Source, Table
from sharegroup.model.histogram import Histogram

EVENTS = {("seen", ""): 2, ("refused", "late"): 3, ("refused", "early"): 1}


def read(table: Table, events: Mapping[tuple[str, str], int] = EVENTS) -> list[tuple[Any, ...]]:
    scrape = Scrape(cast(Any, None), Histogram(), events)
    return [(one.metric.name, one.labels, one.value) for one in table.read(scrape)]


def test_metrics_are_listed_as_declared_and_read_by_source() -> None:
    table = Table()
    whole = table.whole()
    sizes = table.source(("name",), lambda _: [(3, ("a",)), (5, ("b",))])
    sizes.gauge("size", "Size.", lambda size: size)
    whole.counter("seen", "Seen.", lambda scrape: scrape.count("seen"))
    sizes.gauge("double", "Double.", lambda size: 2 * size)
    assert [metric.name for metric in table.metrics] == ["size", "seen_total", "double"]
    assert read(table) == [
        ("seen_total", (), 2),
        ("size", ("a",), 3),
        ("double", ("a",), 6),
        ("size", ("b",), 5),
        ("double", ("b",), 10),
    ]


def test_a_metric_may_have_labels_of_its_own() -> None:
    table = Table()
    sizes = table.source(("name",), lambda _: [(3, ("a",))])
    halves = sizes.gauge(
        "half", "Half.", lambda size: {"left": size - 1, "right": 1}, labels=("side",)
    )
    pairs = table.whole().gauge("pair", "Pair.", lambda _: {("x", "y"): 7}, labels=("one", "two"))
    assert (halves.labels, pairs.labels) == (("name", "side"), ("one", "two"))
    assert read(table) == [
        ("half", ("a", "left"), 2),
        ("half", ("a", "right"), 1),
        ("pair", ("x", "y"), 7),
    ]


def test_events_are_read_by_name_and_label() -> None:
    table = Table()
    events = table.whole()
    events.counter("never", "Never.", lambda scrape: scrape.count("never"))
    events.counter(
        "refused", "Refused.", lambda scrape: scrape.by_label("refused"), labels=("reason",)
    )
    assert read(table) == [
        ("never_total", (), 0),
        ("refused_total", ("late",), 3),
        ("refused_total", ("early",), 1),
    ]
    assert read(table, {}) == [("never_total", (), 0)]


def test_a_metric_without_a_value_is_not_shown() -> None:
    table = Table()
    table.whole().gauge("nothing", "Nothing.", lambda _: None)
    assert read(table) == []


def test_objects_may_be_read_apart_from_the_table() -> None:
    table = Table()
    apart: Source[int] = Source(table.metrics, ("name",))
    summary = apart.summary("records", "Records.", lambda size: Summed(size, 1.5), unit="records")
    assert table.metrics == [summary]
    assert read(table) == []
    assert [*apart.samples(4, "a")] == [(summary, ("a",), (4, 1.5))]


def test_a_histogram_is_of_seconds_unless_its_unit_is_named() -> None:
    whole = Table().whole()
    seconds = whole.histogram("a", "A.", lambda scrape: scrape.loop_lag)
    percent = whole.histogram("b", "B.", lambda scrape: scrape.loop_lag, unit="percent")
    assert (seconds.unit, percent.unit) == ("seconds", "percent")


def test_every_table_is_read() -> None:
    names = [f"{metrics.__name__}.{one.name}" for one in pkgutil.iter_modules(metrics.__path__)]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    assert {value for value in values if isinstance(value, Table)} == set(TABLES)
