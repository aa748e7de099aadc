"""What runs on executors: exact ranges, read with plain Fetch."""
