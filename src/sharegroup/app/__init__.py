"""Composition root: builds and runs a broker from its settings and an environment."""
