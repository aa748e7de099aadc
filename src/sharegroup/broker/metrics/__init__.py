"""Metrics for Prometheus: tables of metrics, filled from plain counters at each scrape.

A metric is declared once, in the table of its section (``table.py``): ``traffic.py``,
``delivery.py``, ``lag.py``, ``coordination.py``, ``node.py`` and others. The declaration has the
function that reads the metric, so there is no other place to name it. ``reader.py`` reads all
tables, ``exposition.py`` formats the text, ``endpoint.py`` serves it. ``docs/metrics.md`` is
generated from the tables.
"""
