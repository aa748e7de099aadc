"""Requests about the durable state of share partitions (KIP-932, share coordinator)."""
