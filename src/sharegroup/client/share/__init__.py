"""The share consumer: one member of a share group, its loops and its acknowledgements."""
