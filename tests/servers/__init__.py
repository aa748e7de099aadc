"""Servers as real processes: what tests and benchmarks start, watch, measure and kill."""
