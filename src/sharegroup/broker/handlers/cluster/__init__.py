"""Requests about the broker itself: versions, settings, quotas."""
