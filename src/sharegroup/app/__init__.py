"""Composition root: settings and a place to stand in, a running broker out."""
