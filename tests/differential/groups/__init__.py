"""Random scripts of consumer groups, committed offsets and transactions."""
