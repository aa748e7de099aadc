"""Clients that have authenticated, clients that have not, and TLS handshakes that failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Sample, counter, gauge
from sharegroup.broker.parts import BrokerParts
from sharegroup.sasl.mechanisms import MECHANISMS

_SOCKETS: Final = "kafka.server:type=socket-server-metrics "

AUTHENTICATED: Final = counter(
    "sharegroup_authentications",
    "Clients that have authenticated by SASL, for the first time or again, by mechanism.",
    labels=("mechanism",),
    kafka=_SOCKETS + "successful-authentication-total, successful-reauthentication-total",
)
FAILED: Final = counter(
    "sharegroup_authentication_failures",
    "Clients that have not, by mechanism: none where they chose none that is offered, SSL where no "
    "rule of ssl.principal.mapping.rules is for their certificate.",
    labels=("mechanism",),
    kafka=_SOCKETS + "failed-authentication-total, failed-reauthentication-total",
)
LATE: Final = counter(
    "sharegroup_authentications_late",
    "Connections closed after connections.authentication.timeout.ms.",
)
EXPIRED: Final = counter(
    "sharegroup_authentications_expired",
    "Connections closed because their client did not authenticate again in time.",
    kafka=_SOCKETS + "expired-connections-killed-count",
)
HANDSHAKES_FAILED: Final = counter(
    "sharegroup_tls_handshake_failures",
    "TLS handshakes that have failed, by reason.",
    labels=("reason",),
    kafka=_SOCKETS + "failed-authentication-total",
)
UNAUTHENTICATED: Final = gauge(
    "sharegroup_connections_unauthenticated",
    "Open connections whose client has not authenticated yet, and TLS handshakes in progress.",
)

METRICS: Final = (AUTHENTICATED, FAILED, LATE, EXPIRED, HANDSHAKES_FAILED, UNAUTHENTICATED)


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    counts = parts.counters.statistics()
    yield LATE.of(counts.get(("authentications_late", ""), 0))
    yield EXPIRED.of(counts.get(("authentications_expired", ""), 0))
    yield UNAUTHENTICATED.of(parts.connections.unauthenticated)
    for mechanism in MECHANISMS:
        yield AUTHENTICATED.of(counts.get(("authentications", mechanism), 0), mechanism)
    for mechanism in (*MECHANISMS, "none", "SSL"):
        yield FAILED.of(counts.get(("authentication_failures", mechanism), 0), mechanism)
    for (name, label), count in counts.items():
        if name == "tls_handshake_failures":
            yield HANDSHAKES_FAILED.of(count, label)
