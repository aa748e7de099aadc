"""Share partitions that this broker leads: fetching, acknowledging, waiting."""
