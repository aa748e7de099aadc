"""Durable state: what the share coordinator remembers of each share partition (KIP-932).

Start with :mod:`sharegroup.share_state.coordinator`.
"""
