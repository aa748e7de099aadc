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
