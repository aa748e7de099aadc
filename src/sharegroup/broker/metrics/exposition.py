"""Formats samples as text for Prometheus, with prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from sharegroup.broker.metrics.metric import Metric, MetricKind, Sample, Summed
from sharegroup.model.histogram import Histogram


class Exposition:
    """The samples of one moment, as a collector for prometheus-client.

    Of the broker's own objects it reads only histograms, whose counts only grow. So another thread
    may format it.
    """

    def __init__(self, samples: Iterable[Sample], *, process: bool) -> None:
        self._by_metric: dict[Metric, list[Sample]] = {}
        for sample in samples:
            self._by_metric.setdefault(sample.metric, []).append(sample)
        self._process = process

    def text(self, accept: str) -> tuple[bytes, str]:
        """The text in the format that ``accept`` asks for, and its content type."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self), content_type

    def collect(self) -> Iterator[Family]:
        """The families, as prometheus-client's registries give them."""
        for metric, samples in self._by_metric.items():
            yield _family(metric, samples)
        if self._process:
            yield from ProcessCollector(registry=None).collect()


def _family(metric: Metric, samples: Sequence[Sample]) -> Family:
    words = (metric.name, metric.doc)
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(*words, labels=metric.labels)
        for _, labels, value in samples:
            if isinstance(value, Histogram):
                histogram.add_metric(labels, _buckets(value), value.total)
        return histogram
    if metric.kind is MetricKind.SUMMARY:
        summary = SummaryMetricFamily(*words, labels=metric.labels)
        for _, labels, value in samples:
            if isinstance(value, Summed):
                summary.add_metric(labels, value.times, value.total)
        return summary
    plain_family = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    plain = plain_family(*words, labels=metric.labels)
    for _, labels, value in samples:
        if isinstance(value, int | float):
            plain.add_metric(labels, value)
    return plain


def _buckets(value: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(float(bound)) for bound in value.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(value.counts)), strict=True))
