"""Attacks on a broker's secured listeners, and a well-behaved client beside them."""
