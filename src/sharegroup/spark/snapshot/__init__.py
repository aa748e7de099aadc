"""A queue as rows: each record with its state; nothing is acquired."""
