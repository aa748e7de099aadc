"""How a client reaches a secured cluster: TLS and SASL, as settings and at each connection."""
