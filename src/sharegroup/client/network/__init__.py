"""A cluster as a client reaches it: addresses, connections, metadata."""
