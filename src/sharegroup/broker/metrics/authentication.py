"""Clients that have authenticated, clients that have not, and TLS handshakes that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.broker.metrics.table import Scrape, Table
from sharegroup.sasl.mechanisms import MECHANISMS

_SOCKETS: Final = "kafka.server:type=socket-server-metrics "


def _authenticated(scrape: Scrape) -> Mapping[str, int]:
    return {mechanism: scrape.count("authentications", mechanism) for mechanism in MECHANISMS}


def _failed(scrape: Scrape) -> Mapping[str, int]:
    return {
        mechanism: scrape.count("authentication_failures", mechanism)
        for mechanism in (*MECHANISMS, "none", "SSL")
    }


AUTHENTICATION: Final = Table()
CONNECTIONS: Final = AUTHENTICATION.whole()
BY_LABEL: Final = AUTHENTICATION.whole()

BY_LABEL.counter(
    "sharegroup_authentications",
    "Clients that have authenticated by SASL, for the first time or again, by mechanism.",
    _authenticated,
    labels=("mechanism",),
    kafka=_SOCKETS + "successful-authentication-total, successful-reauthentication-total",
)
BY_LABEL.counter(
    "sharegroup_authentication_failures",
    "Clients that have not, by mechanism: none where they chose none that is offered, SSL where no "
    "rule of ssl.principal.mapping.rules is for their certificate.",
    _failed,
    labels=("mechanism",),
    kafka=_SOCKETS + "failed-authentication-total, failed-reauthentication-total",
)
CONNECTIONS.counter(
    "sharegroup_authentications_late",
    "Connections closed after connections.authentication.timeout.ms.",
    lambda scrape: scrape.count("authentications_late"),
)
CONNECTIONS.counter(
    "sharegroup_authentications_expired",
    "Connections closed because their client did not authenticate again in time.",
    lambda scrape: scrape.count("authentications_expired"),
    kafka=_SOCKETS + "expired-connections-killed-count",
)
BY_LABEL.counter(
    "sharegroup_tls_handshake_failures",
    "TLS handshakes that have failed, by reason.",
    lambda scrape: scrape.by_label("tls_handshake_failures"),
    labels=("reason",),
    kafka=_SOCKETS + "failed-authentication-total",
)
CONNECTIONS.gauge(
    "sharegroup_connections_unauthenticated",
    "Open connections whose client has not authenticated yet, and TLS handshakes in progress.",
    lambda scrape: scrape.parts.connections.unauthenticated,
)
