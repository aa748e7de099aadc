"""Metrics for Prometheus: tables of what there is, read from plain counters when somebody asks.

``metric.py`` has the words; ``traffic.py``, ``delivery.py``, ``lag.py``, ``coordination.py`` and
``node.py`` each a table and the reading of it; ``exposition.py`` makes the text, ``endpoint.py``
serves it. ``docs/metrics.md`` is written from the tables.
"""
