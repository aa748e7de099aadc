"""Seeded crash test of the Spark source: real Spark, real brokers, parts killed at random points.

Read in this order: `lane` (what a seed means), `workload` (the user's program), `strikes` and
`killer` (what is done to it), `checker` (what must hold afterwards), `round` (one run of several
seeds).
"""
