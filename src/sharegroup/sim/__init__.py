"""The whole system on virtual time, an in-memory network and a faulty disk."""
