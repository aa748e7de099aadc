"""Quotas of clients: which one applies, how fast a client is, and how long it must wait."""
