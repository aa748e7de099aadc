"""A metric, and a sample of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from sharegroup.model.histogram import Histogram


class MetricKind(Enum):
    """Prometheus's metric types; a summary here has a count and a sum, but no quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Summed(NamedTuple):
    """A summary's value."""

    times: int
    total: float


Value: TypeAlias = float | Histogram | Summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One line of the reference. ``kafka`` is the MBean it corresponds to; empty without one.

    Names follow Prometheus: base units, counters end in ``_total``.
    """

    name: str
    kind: MetricKind
    unit: str
    doc: str
    labels: tuple[str, ...] = ()
    kafka: str = ""

    def of(self, value: Value, *labels: str) -> Sample:
        """A sample of this metric."""
        assert len(labels) == len(self.labels), self.name
        return Sample(self, labels, value)


class Sample(NamedTuple):
    """One metric's value for one set of labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value


def counter(
    name: str, doc: str, *, labels: tuple[str, ...] = (), unit: str = "", kafka: str = ""
) -> Metric:
    """A value that only grows; ``name`` is without ``_total``."""
    return Metric(
        name=f"{name}_total",
        kind=MetricKind.COUNTER,
        unit=unit,
        doc=doc,
        labels=labels,
        kafka=kafka,
    )


def gauge(
    name: str, doc: str, *, labels: tuple[str, ...] = (), unit: str = "", kafka: str = ""
) -> Metric:
    """A value that goes up and down."""
    return Metric(name=name, kind=MetricKind.GAUGE, unit=unit, doc=doc, labels=labels, kafka=kafka)


def histogram(
    name: str, doc: str, *, labels: tuple[str, ...] = (), unit: str = "seconds", kafka: str = ""
) -> Metric:
    """A distribution of values."""
    return Metric(
        name=name, kind=MetricKind.HISTOGRAM, unit=unit, doc=doc, labels=labels, kafka=kafka
    )


def summary(
    name: str, doc: str, *, labels: tuple[str, ...] = (), unit: str = "", kafka: str = ""
) -> Metric:
    """A count and a sum; their quotient is the mean."""
    return Metric(
        name=name, kind=MetricKind.SUMMARY, unit=unit, doc=doc, labels=labels, kafka=kafka
    )
