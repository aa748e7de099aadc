"""Idempotent producers (and, later, transactions): the deterministic core.

No I/O, no clock: sequence numbers and producer ids only. ``storage`` calls ``check`` before an
append and ``applied`` after it.
"""
