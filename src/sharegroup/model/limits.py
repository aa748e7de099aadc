"""The limits on what a peer may ask, claim or cost, each with its reason and Kafka's own value
where it has one.

Limits that an operator may set are broker settings (``socket.request.max.bytes``,
``queued.max.request.bytes``, ``queued.max.response.bytes``, ``max.connections``…). The limits here
are fixed.
"""

from __future__ import annotations

from typing import Final

FRAME_BYTES_MAX: Final = 104_857_600
"""One request frame; Kafka's socket.request.max.bytes.

A longer frame closes the connection.
"""

SMALL_REQUEST_BYTES_MAX: Final = 1 << 20
"""A request of administration or membership: 1 MiB holds thousands of topics. A longer one is
refused by its length, before the rest is read. Produce requests may take FRAME_BYTES_MAX."""

FETCH_SESSION_PARTITIONS_MAX: Final = 200_000
"""Partitions of all incremental fetch sessions together, some 100 MB. A consumer whose session
would go over this number gets no session, and names its partitions with each fetch."""

KEY_RANGES_MAX: Final = 1000
"""Key ranges of one partition in a fetch, which are compared with each record's hash. A member has
few: each join or leave of members adds one range at most."""

ACKNOWLEDGING_REQUEST_BYTES_MAX: Final = 16 << 20
"""A request with acknowledgements: one type for each record of the widest window
(ACKNOWLEDGE_TYPES_MAX)."""

ACKNOWLEDGING_BYTES_FREE: Final = 16 << 10
"""A request with acknowledgements up to this length is decoded without comparing it to the records
in flight. It holds some 850 ranges, which cost some milliseconds."""

ACKNOWLEDGING_BYTES_PER_RECORD: Final = 24
"""The most bytes that the acknowledgement of one record takes: a range of its own is 19 bytes, a
partition of one record 5 more. A request is longer than any valid one if it exceeds
ACKNOWLEDGING_BYTES_FREE plus this many bytes for each record in flight in its group."""

SESSION_BYTES_PER_PARTITION: Final = 64
"""The most bytes that a share fetch has for a partition besides acknowledgements: 24 bytes to add
it to its session, 22 to forget it."""

ACKNOWLEDGE_TYPES_MAX: Final = 10_000_000
"""Types in one acknowledgement range: one for each record of the widest window
(share.partition.wide.record.locks)."""

FIRST_REQUEST_BYTES_MAX: Final = 4 << 20
"""The first request of a connection. Clients begin with ApiVersions or Metadata, at worst with a
produce request of their default size (1 MB); an unknown peer gets no more."""

ARRAY_LENGTH_MAX: Final = 1_000_000
"""Elements of an array in a message, as Kafka from 4.4 on; each needs a byte, so the frame
bounds it as well."""

TAGGED_FIELDS_MAX: Final = 10_000
"""Tagged fields of one struct, as Kafka from 4.4 on."""

OPEN_REQUESTS_MAX: Final = 256
"""Requests of one connection that are started and not answered. At this number no further request
is started until half of them are answered (Kafka handles one at a time)."""

ANSWERS_AHEAD_BYTES_MAX: Final = 1 << 20
"""Bytes of one connection's answers that are ready and wait for an earlier one. Beyond this no
further request is started."""

TURN_REQUESTS: Final = 2
"""Requests of one connection started in one step of the event loop. A producer that pipelines is
not slowed down by it, and another connection waits for no more than these."""

STEP_REQUESTS: Final = 32
"""Requests started in one step of the event loop, over all connections; then sockets are read,
timers fire, and the next connections have their turn."""

STEP_REQUESTS_ALONE: Final = 128
"""As STEP_REQUESTS, while one connection has the broker for itself: some milliseconds. Each step
costs a round of fsync, which then serves this many requests."""

SLICE_S: Final = 0.005
"""Seconds that one request may take of the event loop's thread at once, where its parts are
answered on their own. Then others have their turn."""

REQUEST_ARRAY_MAX: Final = 100_000
"""Elements of an array that is not inside another, in a request. A request of 1 MiB can hold a
million empty names, and each costs some ten microseconds and an answer forty times as long. Kafka
has ARRAY_LENGTH_MAX only."""

PRODUCED_PARTITIONS_MAX: Final = 20_000
"""Topics and partitions in one produce request, which appends to all of them in one step. A record
batch has 61 bytes at least, so a request of 1 MiB, the default of most producers, holds fewer."""

TURN_BYTES: Final = 4 << 10
"""For each piece of this many bytes a request counts as one more request of its turn: decoding the
piece takes as long."""

WRITE_BYTES: Final = 1 << 20
"""Bytes of answers written to one connection in one step of the event loop. The rest of a large
answer is not copied into the connection's buffer, and others have their turn in between."""

TURN_RECORD_BYTES: Final = 64 << 10
"""As TURN_BYTES, for requests that carry records, which are not decoded."""

OPEN_BYTES_MAX: Final = 2 << 20
"""Bytes of the requests of one connection that are started and not answered. At this number no
further request is started until half of the bytes are answered, so that a slow disk gets no more
work."""

UNCLAIMED_BYTES: Final = 64 << 10
"""An unfinished request up to this length is read without reserving all of it in
queued.max.request.bytes."""

MODEST_BYTES: Final = 16 << 10
"""A connection that never held more than this is read even when queued.max.request.bytes is used
up. Clients send heartbeats and commits over such connections."""

ANSWER_BYTES_MIN: Final = 1 << 20
"""Records that a fetch may get, at least, however little of queued.max.response.bytes is left: a
batch of the default size."""

STRING_BYTES_MAX: Final = 32_767
"""Bytes of a string in a message: group, member and client ids, names, values of configs. What an
int16 length can say; Kafka holds its newer encoding to it as well."""

FEATURE_NAME_SHOWN_MAX: Final = 250
"""Characters of a feature's name in an error, which says it twice: names may be long."""

MEMBER_ID_LENGTH_MAX: Final = 36
"""Characters in a client-made member id (KIP-932, Kafka's Uuid text and java.util.UUID both
fit)."""

OFFSET_RANGES_MAX: Final = 60_000
"""Ranges of offsets in one OffsetCommit or TxnOffsetCommit: 1 MB of them (KIP-X)."""

HELD_RANGES_MAX: Final = 1_000
"""Key ranges that a member says it has of one partition. An assignment has a few."""

DEDUPLICATION_IDS_MAX: Final = 1 << 20
"""Message ids that one partition remembers (deduplication.window.ms), 48 MiB of memory. With more
ids within the window the oldest are forgotten early, which is counted and logged: the window of the
partition is shorter then."""

GROUP_REGEXES_MAX: Final = 100
"""Different regular expressions in one consumer group. Each is matched with every topic's name, in
slices, and, when topics change, with the new names."""

GROUP_PROTOCOLS_MAX: Final = 100
"""Protocols (ways of assigning) of one member of a classic group; clients have one to three."""

PENDING_MEMBERS_MAX: Final = 10_000
"""Member ids of one classic group that were given out and not used yet. Each is kept for a session
timeout."""

MEMBER_ID_PREFIX_LENGTH_MAX: Final = 1_000
"""Characters of the client's name in a member id that the coordinator makes. The id must fit into
STRING_BYTES_MAX."""

ASSIGNING_REQUEST_BYTES_MAX: Final = 4 << 20
"""A SyncGroup request of a leader: the assignments of a thousand members with a thousand partitions
each."""

CLIENT_TEXT_LENGTH_MAX: Final = 249
"""Characters in a topic name (Kafka's Topic class)."""

TOPIC_PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic: each is a folder with open files (Kafka: 10,000 per create)."""

DESCRIBED_PARTITIONS_MAX: Final = 2_000
"""Partitions in one answer to DescribeTopicPartitions (Kafka's
max.request.partition.size.limit)."""

COMMITTED_OFFSETS_MAX: Final = 10_000
"""Partitions in one OffsetCommit or TxnOffsetCommit, some 100 ms of work. Kafka's bound is the size
of the batch (``max.message.bytes`` of __consumer_offsets), which holds about as many."""

COMMITTED_TOPICS_MAX: Final = COMMITTED_OFFSETS_MAX
"""Topics in one OffsetCommit or TxnOffsetCommit. Topics without partitions are not among the
partitions that are counted, and a request of 1 MiB can hold a hundred thousand of them."""

NAMED_MEMBERS_MAX: Final = 10_000
"""Members named in one SyncGroup or LeaveGroup, some 20 ms of decoding."""

FETCHED_OFFSETS_MAX: Final = 100_000
"""Partitions in one answer to OffsetFetch, over all its groups, some 100 ms of work. A request can
name a group with all its offsets again and again. Kafka has no bound."""

RECORD_STATES_MAX: Final = 10_000
"""Runs of records in one answer to DescribeShareGroupOffsets: making it takes some 20 ms, in which
nothing else is served."""

RESPONSE_BYTES_MAX: Final = 2**31 - 1
"""For the client. A response may be as long as its length can say: one record batch is always sent
whole."""

HANDSHAKE_BYTES_MAX: Final = 1 << 20
"""For the client. A response of the handshake is a few kilobytes. A server of another protocol
(HTTP, TLS) is known by its first bytes: as a length they are hundreds of megabytes."""

SCRAM_CLIENT_ITERATIONS_MAX: Final = 100_000
"""For the client. Iterations that a server may ask of one login: a tenth of a second of processor
time. Kafka's brokers store 4,096 to 16,384."""

SCRAM_MESSAGE_BYTES_MAX: Final = 1 << 16
"""For the client. One message of a server in a SASL login; Kafka's have some hundred bytes."""

OAUTH_REFUSAL_CHARACTERS_MAX: Final = 1_000
"""For the client. Characters that are kept of a server's reason for refusing a token."""

TOKEN_RESPONSE_BYTES_MAX: Final = 1 << 20
"""For the client. An answer of a token endpoint; a token is some kilobytes."""

SASL_ROUNDS_MAX: Final = 8
"""For the client. Messages of one login; SCRAM has two."""

DAMAGED_RANGES_MAX: Final = 1_000
"""The most damaged ranges of a partition in one answer of DescribeShareGroupOffsets."""

PAUSE_MS_MAX: Final = 7 * 24 * 3_600_000
"""The longest that a record may rest before it is delivered again: a week. What is to come later
belongs into a schedule, not into a window that its start offset cannot leave."""

EXPIRY_MS_MAX: Final = 10 * 365 * 24 * 3_600_000
"""The longest that a group may let its records live (share.record.expiry.ms): ten years, longer
than logs are kept."""

SCHEDULE_MS_MAX: Final = 10 * 365 * 24 * 3_600_000
"""How far ahead a record may say when it is due (header sharegroup.deliver.at): ten years, longer
than logs are kept. A time beyond this is a mistake, as of a producer that counts microseconds."""

SCHEDULED_MAX: Final = 10_000_000
"""Records of one share partition that may rest until they are due, in a group with scheduled
delivery. Where neighbours are due at different times, a record takes some 40 bytes, else much
less."""

DEAD_WEIGHT_MAX: Final = 16 << 20
"""About how many bytes the records of one share partition may take that failed for good and whose
dead letters cannot be written. They are written again with each snapshot of the state. With more,
nothing is delivered until some of the letters are written: 100,000 records, each with another
reason of 100 characters, are less."""

DEATH_REASON_LENGTH_MAX: Final = 8_192
"""Characters that are kept of what a consumer says of a record that failed for good: an exception
with its traceback. It stands in the durable state until the dead letter is written, and then in a
header of the letter."""

SINK_REASON_CHARACTERS_MAX: Final = 16 << 20
"""For Spark. Characters of the reasons in one batch of a sink, which pass through the driver's
memory and a file. With more, the reasons are cut to one length. As much as DEAD_WEIGHT_MAX lets
wait in one share partition."""
RETENTION_GROUPS_MAX: Final = 20
"""Share groups that a topic may name in share.retention.groups. Each retention check looks up the
start offset of each of them in each partition."""

ARCHIVED_RANGES_MAX: Final = 200
"""Ranges of archived records, the most recent, that a share partition remembers with their reason:
some 20 KB."""

TAKEN_RANGES_MAX: Final = 1_000
"""Ranges of records that an operator has taken from their holders, and that a share partition
remembers until the holders have answered: some 100 KB."""

AHEAD_MAX: Final = 100_000
"""How far past the records in flight an operator may decide about records that were never
delivered: the records in between become part of the window, which then holds so many more."""

WEIGHT_MAX: Final = 100
"""The weight of a tenant beside one without a weight of its own; the least is a hundredth."""

WEIGHTS_MAX: Final = 1_000
"""Tenants of a group that have weights: the setting is read by people."""

HEADER_NAME_BYTES_MAX: Final = 255
"""The name of a header in a setting, which is compared with each header of each record."""

RATE_RECORDS_MAX: Final = 1_000_000
"""Records of the rate of a group or of a tenant: more than a broker delivers in a second."""

RATE_INTERVAL_MS_MAX: Final = 86_400_000
"""Milliseconds of the rate of a group: a day."""

FAIR_WAITING_MAX: Final = 2_000_000
"""Records of one share partition that nobody holds, of a group whose tenants take turns: with so
many, the broker looks no further ahead for other tenants. Where tenants alternate, a record takes
some 10 bytes; side by side they take none."""

FAIR_ENTRIES_MAX: Final = 100_000
"""Of the same group: how many sequences of waiting records the tenants of one share partition may
have, some 300 bytes each. A tenant has one for each 256 KiB of the log that have records of it."""

GROUP_LABELS_MAX: Final = 1_000
"""Pairs of group and topic that have record metrics of their own. Clients name groups as they like;
further pairs are summed under the group ``other``."""

GROUP_SETTINGS_MAX: Final = 10_000
"""Groups whose settings are kept at hand, a kilobyte or two each. Clients name groups as they like,
and these need not exist. The settings of a group that was forgotten are resolved again."""

AUTHORIZER_ANSWERS_MAX: Final = 10_000
"""Answers of the authorizer cached for one connection. Beyond this the authorizer is asked again,
so that a client that names ever new topics costs time, not memory."""

ACL_CHANGES_MAX: Final = 10_000
"""ACLs made or deleted by one request, as in Kafka (its MAX_RECORDS_PER_USER_OP)."""

ACL_FILTERS_MAX: Final = 100
"""Filters of one DeleteAcls that each may mean many ACLs: all ACLs are looked at for each. Filters
that name one ACL in full are not counted."""

SCRAPE_REQUEST_BYTES_MAX: Final = 16_384
"""A scraper's request for metrics is a few hundred bytes."""

SCRAPE_SECONDS_MAX: Final = 10
"""How long a scraper may take for its request and for reading the answer."""

DESCRIPTORS_RESERVED: Final = 48
"""File descriptors for what is neither a connection nor a log: standard streams, the event loop's
own, listeners, locks, small files while they are written, and connections that are closed as soon
as they are made."""

CONNECTIONS_RESERVED: Final = 16
"""Connections for which file descriptors are reserved, however many partitions there are. A broker
that cannot have as many does not start, and partitions that would take them are not created."""

DECOMPRESSED_BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""What one compressed batch may unpack to, where it is produced and where it is read (Kafka: no
bound).

More than any producer makes by itself. Most limit a batch by its plain bytes (librdkafka and
franz-go 1 MB). Java limits it by an estimate of the compressed bytes: its 16 KiB reach 17 MB with
gzip, whose ratio ends at 1,032, and 196 MB with zstd on records of a megabyte of one letter, at
12,000. A frame of 100 MiB of incompressible bytes fits as well. A decompression bomb costs this
much memory while its batch is processed.
"""

UNPACKED_ON_LOOP_BYTES_MAX: Final = 1024 * 1024
"""Up to this many bytes, a millisecond or two, the compressed batches of one partition in one
request are unpacked on the event loop's thread. More is unpacked on another thread, so that no
other request waits for it."""

COMPRESSED_BLOCKS_MAX: Final = 262_144
"""Blocks in one snappy or lz4 stream, which are stepped over one by one:
DECOMPRESSED_BATCH_BYTES_MAX in blocks of 1 KiB, the smallest that xerial's writer makes (Java's are
32 and 64 KiB)."""

SNAPPY_RATIO_MAX: Final = 22
"""A byte of snappy unpacks to at most 21.3 bytes: a copy of 64 bytes takes three. A block that
claims to hold more than this many times its length is refused before memory is allocated for it."""

RECORD_BYTES_MIN: Final = 7
"""The smallest record: its length, attributes, two deltas, key, value and headers, a byte each.

A batch that claims more records than its plain bytes can hold is refused before memory is allocated
for them.
"""

INPUT_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One line, or one row of CSV, that the command line reads as a record: a file without line ends
must not fill the memory."""

COOPERATIVE_RECORDS_MAX: Final = 200_000
"""Offsets of one partition between the first offset that a group has not committed and the last
offset that is handed out in turns. A record that nobody commits holds up the records after these
offsets, until its lock ends."""

POOL_RECORDS_MAX: Final = 1_000_000
"""Records that a pool holds, and handlers that it runs, at most. A record of 100 bytes takes about
a kilobyte with its lane."""

QUOTAS_MAX: Final = 10_000
"""Quotas that a broker keeps. A user who may set quotas is trusted; a loop that goes wrong is
not."""

QUOTA_ALTERATIONS_MAX: Final = 2_000
"""Entities in one AlterClientQuotas, some 30 ms of work (Kafka: 10,000 changes)."""

QUOTA_PARTS_MAX: Final = 16
"""Types of one entity, and quotas of it in one AlterClientQuotas, and components of a filter. There
are two types at most, and four quotas."""

QUOTA_CLIENTS_MAX: Final = 10_000
"""Clients whose rate is followed against one kind of quota, a kilobyte each, and addresses whose
connections are counted. Further clients share one rate for each quota until others are idle."""

QUOTA_CLIENT_ID_CHARACTERS: Final = 256
"""Characters of a client id that are kept, to know the client again. Two clients whose ids differ
only after these characters share a rate."""
PASSWORD_CHECKS_MAX: Final = 2
"""Hashes of passwords computed at once, each some 50 ms of a processor and 16 MiB."""

USERS_COMPARED_MAX: Final = 128
"""An unknown user of SCRAM gets the salt's length and the iterations that are usual among this many
users."""

TOKEN_BYTES_MAX: Final = 64 << 10
"""One bearer token; usual ones are a few kilobytes."""

JWKS_BYTES_MAX: Final = 1 << 20
"""The document with the keys of bearer tokens."""

UNAUTHENTICATED_SHARE: Final = 4
"""One connection in this many may be one that has not authenticated yet."""

OUT_OF_ORDER_BYTES_MAX: Final = 4 << 10
"""A request in the middle of a SASL exchange is answered by its own API's response up to this
length; a longer one closes the connection without an answer."""

UNAUTHENTICATED_MIN: Final = 8
"""At least this many connections may be unauthenticated, however few are allowed in all."""

UNAUTHENTICATED_HOSTS_COMPARED: Final = 64
"""What is closed when there are too many unauthenticated connections. If they come from up to this
many addresses: a connection of the address that has the most. Else: the oldest connection of all.
"""

UNAUTHENTICATED_MEMORY_SHARE: Final = 8
"""One part in this many of queued.max.request.bytes is for connections that have not authenticated
yet and hold more than MODEST_BYTES."""

HANDSHAKES_PER_SECOND_MAX: Final = 250
"""TLS handshakes that begin in a second, over all listeners: they take a quarter of a processor."""

HANDSHAKES_AT_ONCE_MAX: Final = 2
"""TLS handshakes that begin at once, when there were few before: other connections wait for all of
them."""

TLS_RECORDS_AT_ONCE: Final = 64
"""TLS records decrypted before their data is looked at: a millisecond if each changes keys."""

TLS_EMPTY_RECORDS_MAX: Final = 64
"""TLS records without data (changes of keys, padding, attempts to renegotiate) that one connection
may send; each costs some 20 µs of the event loop."""

TLS_DATA_PER_EMPTY_RECORD: Final = 1 << 20
"""A connection may send one more TLS record without data for each this many bytes of data."""

FAILURE_DELAY_DOUBLINGS_MAX: Final = 5
"""How often the delay of a failed authentication doubles: up to 32 times."""

CLAIMS_AT_ONCE_MAX: Final = PASSWORD_CHECKS_MAX
"""Claims of one address about one user that are checked at once."""

CLAIMS_FOLLOWED_MAX: Final = 10_000
"""Pairs of address and user whose failed authentications are remembered; the oldest is forgotten.
"""

CLAIMS_USER_CHARACTERS: Final = 100
"""Characters of a claimed name that are kept, to know the name again."""

USER_NAME_LENGTH_MAX: Final = 1000
"""Characters of a user's name that is stored; the log and the answers repeat it."""

SCRAM_SALT_BYTES_MAX: Final = 1024
"""Bytes of a salt, or of a salted password, that are stored. librdkafka makes salts of 64."""
