"""Clients and a broker that are killed at random points, and a checker that trusts no one.

Read in this order: `journal` (what clients write down), the programs (`producing`, `consuming`,
`transferring`, `rivalling`: each with librdkafka and with our client), `strikes` (what a seed
kills, and when), `round` (one run), `checker` and `rules` (what must hold afterwards).
"""
