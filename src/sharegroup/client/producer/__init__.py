"""The producer: records out, in batches, in order and once."""
