"""SASL mechanisms as pure state machines, for both sides of a connection."""
