"""The indexes of a segment: offsets, times and aborted transactions."""
