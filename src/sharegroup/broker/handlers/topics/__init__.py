"""Requests about topics and their partitions."""
