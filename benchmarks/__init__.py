"""Ours and Apache Kafka side by side: `make bench`, or `python -m benchmarks --help`.

One file per benchmark, listed in `registry`. Each measures one server with one client; `runner`
alternates the servers, round by round, and `report` makes the table of medians. Each benchmark's
docstring says how its numbers are measured, and what they leave out.
"""
