"""A limit on everything, each with its reason and Kafka's own value where it has one."""

from __future__ import annotations

from typing import Final

FRAME_BYTES_MAX: Final = 104_857_600
"""One request frame; Kafka's socket.request.max.bytes.

A longer one closes the connection.
"""

IN_FLIGHT_REQUESTS_MAX: Final = 1_000
"""Requests of one connection read but not answered; beyond it we stop reading the socket."""

ARRAY_LENGTH_MAX: Final = 10_000_000
"""No array in a message may claim more elements; each needs a byte, so the frame bounds it as
well."""

MEMBER_ID_LENGTH_MAX: Final = 36
"""Characters in a client-made member id (KIP-932, Kafka's Uuid text and java.util.UUID both
fit)."""

CLIENT_TEXT_LENGTH_MAX: Final = 249
"""Characters in a topic name (Kafka's Topic class)."""

GROUP_ID_LENGTH_MAX: Final = 32_767
"""Characters in a group id: what an int16 string length can say."""

DESCRIPTORS_RESERVED: Final = 48
"""File descriptors for what is neither a connection nor a log: standard streams, the event loop's
own, listeners, locks, small files while they are written, and connections that are closed as soon
as they are made."""

CONNECTIONS_RESERVED: Final = 16
"""Connections that there are descriptors for however many partitions there are; a broker that could
not have as many does not start, and partitions that would take them are not made."""
