"""Authorisation: the one check that every request passes (Kafka's interface Authorizer)."""
