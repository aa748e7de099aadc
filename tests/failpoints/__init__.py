"""A real broker that dies at the n-th write, sync or change of a name in its data folder."""
