"""Idempotent producers (and, later, transactions): the deterministic core.

No I/O, no clock: sequence numbers and producer ids only. ``storage`` asks before it appends and
tells after it has.
"""
