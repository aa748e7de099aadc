"""Share partitions that are led here: fetching, acknowledging, waiting."""
