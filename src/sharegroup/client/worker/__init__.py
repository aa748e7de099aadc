"""The worker: a handler for each record, with retries, dead letters and a drain at the end."""
