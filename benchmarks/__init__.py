"""Ours and Apache Kafka side by side: `make bench`, or `python -m benchmarks --help`.

One file per benchmark, listed in `registry`. Each measures one server with one client; `runner`
alternates the servers, round by round, and `report` makes the table of medians. How the numbers
are taken, and what is not in them, is said in each benchmark's docstring.
"""
