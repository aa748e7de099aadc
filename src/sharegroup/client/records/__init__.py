"""Fetched bytes as records, and as Arrow batches."""
