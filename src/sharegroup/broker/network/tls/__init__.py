"""TLS of the broker's connections: the handshake, then the records.

``docs/tls.md`` says why this is not ``loop.start_tls``. Reading order: ``handshake_turns`` →
``accepting`` → ``records`` → ``transport``.
"""
