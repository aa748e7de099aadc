"""Requests that the cluster with the records answers: who may send them, where they go, and what
becomes of answers of several of its brokers."""
