"""Composition root: which log, which listeners → a running broker."""
