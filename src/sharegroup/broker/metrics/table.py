"""Tables of metrics: each metric is declared once, together with the function that reads it::

    TRAFFIC: Final = Table()
    BY_TOPIC: Final = TRAFFIC.source(("topic",), _topics)

    BY_TOPIC.counter(
        "sharegroup_produce_requests",
        "Produce requests, counted for each topic they name.",
        lambda meter: meter.produce_requests,
    )

The exposition and ``docs/metrics.md`` find the metric in its table. The page has the metrics in the
order in which they are declared; they are read source by source, in the order in which the sources
are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypedDict, TypeVar, Unpack

from sharegroup.broker.metrics.metric import Metric, MetricKind, Sample, Value
from sharegroup.broker.parts import BrokerParts
from sharegroup.model.histogram import Histogram

T = TypeVar("T")
Labels: TypeAlias = tuple[str, ...]
"""The values of labels, or their names."""
Reading: TypeAlias = Value | Mapping[str, Value] | Mapping[Labels, Value] | None
"""What the function of a metric returns for one object: its value; or a value for each value of the
metric's own label (a tuple, if it has several); or None, if there is nothing to show now."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the metrics of one scrape are read from."""

    parts: BrokerParts
    loop_lag: Histogram
    """By how much timers of the event loop were late."""
    events: Mapping[tuple[str, str], int]
    """The counts of ``event_counters``, by name and label."""

    def count(self, event: str, label: str = "") -> int:
        """How often an event has happened."""
        return self.events.get((event, label), 0)

    def by_label(self, event: str) -> dict[str, int]:
        """How often an event has happened, by the labels that it has had."""
        return {label: count for (name, label), count in self.events.items() if name == event}


class _Details(TypedDict, total=False):
    labels: Labels
    """The names of the metric's own labels, beyond the labels of the source."""
    unit: str
    kafka: str


class Source(Generic[T]):
    """Metrics that are read from objects of one kind, and labelled as these objects are.

    Args:
        table: takes the metrics that are declared.
        labels: the names of the objects' labels.
    """

    def __init__(self, table: list[Metric], labels: Labels) -> None:
        self._table = table
        self._labels = labels
        self._reads: list[tuple[Metric, Callable[[T], Reading]]] = []

    def counter(
        self, name: str, doc: str, read: Callable[[T], Reading], **details: Unpack[_Details]
    ) -> Metric:
        """Declare a value that only grows; ``name`` is without ``_total``."""
        return self._declare(MetricKind.COUNTER, f"{name}_total", doc, read, **details)

    def gauge(
        self, name: str, doc: str, read: Callable[[T], Reading], **details: Unpack[_Details]
    ) -> Metric:
        """Declare a value that goes up and down."""
        return self._declare(MetricKind.GAUGE, name, doc, read, **details)

    def histogram(
        self, name: str, doc: str, read: Callable[[T], Reading], **details: Unpack[_Details]
    ) -> Metric:
        """Declare a distribution of values; of seconds, if no unit is named."""
        details.setdefault("unit", "seconds")
        return self._declare(MetricKind.HISTOGRAM, name, doc, read, **details)

    def summary(
        self, name: str, doc: str, read: Callable[[T], Reading], **details: Unpack[_Details]
    ) -> Metric:
        """Declare a count and a sum; their quotient is the mean."""
        return self._declare(MetricKind.SUMMARY, name, doc, read, **details)

    def _declare(
        self,
        kind: MetricKind,
        name: str,
        doc: str,
        read: Callable[[T], Reading],
        *,
        labels: Labels = (),
        unit: str = "",
        kafka: str = "",
    ) -> Metric:
        labels = (*self._labels, *labels)
        metric = Metric(name=name, kind=kind, unit=unit, doc=doc, labels=labels, kafka=kafka)
        self._table.append(metric)
        self._reads.append((metric, read))
        return metric

    def samples(self, found: T, *labels: str) -> Iterator[Sample]:
        """The samples of one object, which has these labels."""
        for metric, read in self._reads:
            reading = read(found)
            if isinstance(reading, Mapping):
                for own, value in reading.items():
                    own_labels = (own,) if isinstance(own, str) else own
                    yield metric.of(value, *labels, *own_labels)
            elif reading is not None:
                yield metric.of(reading, *labels)


class Table:
    """The metrics of one section of the page."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []
        """In the order of the page."""
        self._readers: list[Callable[[Scrape], Iterator[Sample]]] = []

    def whole(self) -> Source[Scrape]:
        """A new source: the broker as a whole."""
        return self.source((), _whole)

    def source(
        self, labels: Labels, find: Callable[[Scrape], Iterable[tuple[T, Labels]]]
    ) -> Source[T]:
        """A new source: the objects that ``find`` returns, each with the values of its labels."""
        source: Source[T] = Source(self.metrics, labels)

        def read(scrape: Scrape) -> Iterator[Sample]:
            for found, values in find(scrape):
                yield from source.samples(found, *values)

        self._readers.append(read)
        return source

    def read(self, scrape: Scrape) -> Iterator[Sample]:
        """The samples of all sources that were made here."""
        for read in self._readers:
            yield from read(scrape)


def _whole(scrape: Scrape) -> list[tuple[Scrape, Labels]]:
    return [(scrape, ())]
