"""The limits on what a peer may ask, claim or cost, each with its reason and Kafka's own value
where it has one.

What an operator may set is in the broker's settings (``socket.request.max.bytes``,
``queued.max.request.bytes``, ``queued.max.response.bytes``, ``max.connections``…); what is here is
the same for everybody.
"""

from __future__ import annotations

from typing import Final

FRAME_BYTES_MAX: Final = 104_857_600
"""One request frame; Kafka's socket.request.max.bytes.

A longer one closes the connection.
"""

SMALL_REQUEST_BYTES_MAX: Final = 1 << 20
"""A request of administration or membership: 1 MiB holds thousands of topics. It is refused by its
length, before the rest of it is read; what produces records may take FRAME_BYTES_MAX."""

ACKNOWLEDGING_REQUEST_BYTES_MAX: Final = 16 << 20
"""A request with acknowledgements, whatever window it is about: one type a record, for the widest
window there is (ACKNOWLEDGE_TYPES_MAX)."""

ACKNOWLEDGING_BYTES_FREE: Final = 16 << 10
"""A request with acknowledgements up to this length is decoded without asking what it can be about;
it holds some 850 ranges, which cost some milliseconds."""

ACKNOWLEDGING_BYTES_PER_RECORD: Final = 24
"""What the acknowledgement of one record takes at most: a range of its own is 19 bytes, and a
partition of one record 5 more. A request longer than ACKNOWLEDGING_BYTES_FREE and so many bytes for
each record in flight in its group says more than can be said."""

SESSION_BYTES_PER_PARTITION: Final = 64
"""What a share fetch says at most of a partition besides acknowledgements: 24 bytes to add it to
its session, 22 to forget it."""

ACKNOWLEDGE_TYPES_MAX: Final = 10_000_000
"""Types in one acknowledgement range: one for each record of the widest window
(share.partition.wide.record.locks)."""

FIRST_REQUEST_BYTES_MAX: Final = 4 << 20
"""The first request of a connection. Clients begin with ApiVersions or Metadata, at worst with a
produce request of their default size (1 MB); who has not said anything yet gets no more."""

ARRAY_LENGTH_MAX: Final = 1_000_000
"""Elements of an array in a message, as Kafka from 4.4 on; each needs a byte, so the frame
bounds it as well."""

TAGGED_FIELDS_MAX: Final = 10_000
"""Tagged fields of one struct, as Kafka from 4.4 on."""

OPEN_REQUESTS_MAX: Final = 256
"""Requests of one connection that are started and not answered; at so many no further one is
started until half of them are answered (Kafka handles one at a time)."""

ANSWERS_AHEAD_BYTES_MAX: Final = 1 << 20
"""Answers of one connection that are ready and wait for an earlier one. Beyond it no further
request is started."""

TURN_REQUESTS: Final = 4
"""Requests of one connection started in one step of the event loop: a producer that waits for
nothing is not slowed down by it, and its neighbour waits for no more than these."""

STEP_REQUESTS: Final = 32
"""Requests started in one step of the event loop, over all connections; then sockets are read,
timers fire, and the next connections have their turn."""

STEP_REQUESTS_ALONE: Final = 128
"""The same while one connection has the broker for itself: some milliseconds. Each step costs a
round of fsync, which then serves as many."""

TURN_BYTES: Final = 4 << 10
"""Each so many bytes of a request count as another one in its turn: decoding them takes as long."""

TURN_RECORD_BYTES: Final = 64 << 10
"""The same for requests that carry records, which are not decoded."""

OPEN_BYTES_MAX: Final = 2 << 20
"""Bytes of the requests of one connection that are started and not answered; at so many no further
one is started until half of them are answered: a disk that is slow is not handed more."""

UNCLAIMED_BYTES: Final = 64 << 10
"""An unfinished request up to this length is read without a place in queued.max.request.bytes being
kept for all of it."""

ANSWER_BYTES_MIN: Final = 1 << 20
"""Records that a fetch may get, at least, however little of queued.max.response.bytes is left: a
batch of the default size."""

STRING_BYTES_MAX: Final = 32_767
"""Bytes of a string in a message: group, member and client ids, names, values of configs. What an
int16 length can say; Kafka holds its newer encoding to it as well."""

MEMBER_ID_LENGTH_MAX: Final = 36
"""Characters in a client-made member id (KIP-932, Kafka's Uuid text and java.util.UUID both
fit)."""

CLIENT_TEXT_LENGTH_MAX: Final = 249
"""Characters in a topic name (Kafka's Topic class)."""

TOPIC_PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic: each is a folder with open files (Kafka: 10,000 per create)."""

DESCRIBED_PARTITIONS_MAX: Final = 2_000
"""Partitions in one answer to DescribeTopicPartitions (Kafka's
max.request.partition.size.limit)."""

RECORD_STATES_MAX: Final = 10_000
"""Runs of records in one answer to DescribeShareGroupOffsets: making it takes some 20 ms, in which
nothing else is served."""

ARCHIVED_RANGES_MAX: Final = 200
"""Ranges of records given up that a share partition remembers with their reason, the last ones:
some 20 KB."""

GROUP_LABELS_MAX: Final = 1_000
"""Pairs of group and topic that have metrics of their own for their records. Clients name groups as
they like; what is beyond is summed under the group ``other``."""

AUTHORIZER_ANSWERS_MAX: Final = 10_000
"""Answers of the authorizer kept for one connection; beyond it we ask anew, so that a client that
names ever new topics costs time and not memory."""

SCRAPE_REQUEST_BYTES_MAX: Final = 16_384
"""A scraper's request for metrics is a few hundred bytes."""

SCRAPE_SECONDS_MAX: Final = 10
"""How long a scraper may take for its request and for reading the answer."""

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
