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

DECOMPRESSED_BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""What one compressed batch may unpack to, where it is produced and where it is read (Kafka: no
bound).

Above all that a producer makes by itself. Most fill a batch by plain bytes (librdkafka and franz-go
1 MB). Java fills it by its estimate of the compressed bytes: its 16 KiB reach 17 MB with gzip,
whose ratio ends at 1,032, and 196 MB with zstd on records of a megabyte of one letter, at 12,000. A
frame of 100 MiB of bytes that do not compress fits as well. It is what a bomb costs in memory, for
as long as one batch is looked at.
"""

UNPACKED_ON_LOOP_BYTES_MAX: Final = 1024 * 1024
"""What the compressed batches of one partition in one request may unpack to on the broker's own
thread, a millisecond or two; more is unpacked in another, so that nobody else waits for it."""

COMPRESSED_BLOCKS_MAX: Final = 262_144
"""Blocks in one snappy or lz4 stream, which are stepped over one by one: the bound above in blocks
of 1 KiB, the smallest that xerial's writer makes (Java's are 32 and 64 KiB)."""

RECORD_BYTES_MIN: Final = 7
"""The smallest record: its length, attributes, two deltas, key, value and headers, a byte each.

A batch that claims more records than its plain bytes can hold is refused before anything is made
ready for them.
"""
