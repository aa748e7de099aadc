"""Which node of a fleet owns which state. Plain machines: no clock, no network."""
