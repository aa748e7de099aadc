"""Delivery: what happens to records at the leader of a share partition (KIP-932).

Start with :mod:`sharegroup.share.partition`; :mod:`sharegroup.share.session` is independent of it.
Nothing here does I/O or reads a clock: time is an argument, and changes to write are returned.
"""
