"""Idempotent producers and transactions: the deterministic core.

No I/O, no clock. ``storage`` calls ``check`` before an append and ``applied`` after it.
"""
