"""Metrics for Prometheus: tables of metrics, filled from plain counters at each scrape.

``metric.py`` defines the types. ``traffic.py``, ``delivery.py``, ``lag.py``, ``coordination.py``
and ``node.py`` each hold a table and the code that reads its values. ``exposition.py`` formats the
text, ``endpoint.py`` serves it. ``docs/metrics.md`` is generated from the tables.
"""
