"""Cooperative consumption (KIP-X): a partition's hash space split over the members of a consumer
group, and offsets that are committed as ranges.

Deterministic: no asyncio, clock, I/O or randomness.
"""
