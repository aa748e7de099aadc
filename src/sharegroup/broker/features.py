"""Features that ApiVersions announces: name → (lowest, highest level).

``share.version`` 1 is Kafka's switch for share groups, since 4.2, and 2 for their dead letters,
since 4.4 (KIP-1191).
``group.version`` 1 is Kafka's switch for the consumer protocol (KIP-848), since 4.0.
``transaction.version`` 2: each transaction has an epoch of its own, and Produce and TxnOffsetCommit
add what they write to the transaction (KIP-890).
``share.acquire.without.records`` is ours: a ShareFetch may ask for the acquired ranges only (tagged
field 9000 of its request).
``share.wide.window`` is ours too: the group config ``share.partition.wide.record.locks``.
``share.record.states`` as well: DescribeShareGroupOffsets can tell the state of each record in
flight (tagged fields 9000 of its request, 9001 and 9002 of its response). Tagged field 9003 of that
response, the damage in the log, needs no feature: it is there when there is damage. Neither does
9004, the records given up and why, which comes with the states.
``share.blocked.records`` 1: the group config ``share.ordering.on.failure``, and decisions by hand
(tagged field 9000 of ShareAcknowledge).
``share.by.hand`` 1: the group config ``share.paused``, and decisions by hand about all records that
are not finished, and ranges of them (tagged field 9001 of ShareAcknowledge, 9001 and 9002 of a
partition in its answer).
``share.group.fork`` 1: a group may begin with another group's state of every record (tagged field
9000 of AlterShareGroupOffsets).
``share.dead.letters`` 1: dead letters are never given up, and say what the consumer says (tagged
field 9000 of a partition in ShareAcknowledge and ShareFetch; 9006 in the response of
DescribeShareGroupOffsets). Not with ``share.version`` 1.
``share.transactional.acks`` 1: acknowledgements in a transaction (tagged fields 9002 to 9004 of
ShareAcknowledge), until Kafka ships KIP-1289.
``share.release.backoff`` 1: the group configs ``share.release.backoff…``, and pauses of single
records (tagged field 9001 of a partition in ShareAcknowledge and ShareFetch).
Tagged field 9000 of a partition in the answers of ShareFetch and ShareAcknowledge, accepts that had
no effect and are no error, needs no feature: it is there when there are such accepts. Nor does 9001
in the answer of ShareFetch, which says that the records come in order per key.
``cooperative.consumption`` 1: a fetch may have key ranges (tagged field 9000 of a partition in
Fetch; KIP-X). 2: a group may commit ranges of offsets (tagged fields 9000 of OffsetCommit,
TxnOffsetCommit and OffsetFetch). 3: members that share a partition may fetch in turns (tagged field
9001 of ConsumerGroupHeartbeat; 9000 of Fetch, and 9001 of its partitions).
"""

from __future__ import annotations

from typing import Final

SHARE_VERSION: Final = "share.version"
DEAD_LETTERS: Final = "share.dead.letters"
DEAD_LETTERS_VERSION: Final = 2
"""The level of ``share.version`` from which on dead letters are written."""

FEATURES: Final = {
    SHARE_VERSION: (0, 2),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "share.acquire.without.records": (0, 1),
    "share.wide.window": (0, 1),
    "share.record.states": (0, 1),
    "share.blocked.records": (0, 1),
    "share.by.hand": (0, 1),
    "share.group.fork": (0, 1),
    DEAD_LETTERS: (0, 1),
    "share.release.backoff": (0, 1),
    "share.transactional.acks": (0, 1),
    "cooperative.consumption": (0, 3),
}


def supported(share_version: int) -> dict[str, tuple[int, int]]:
    """The features that clients may use at this level of ``share.version``."""
    if share_version >= DEAD_LETTERS_VERSION:
        return FEATURES
    return {name: levels for name, levels in FEATURES.items() if name != DEAD_LETTERS}


def finalized(share_version: int) -> dict[str, int]:
    """The finalised levels by feature, without features at level 0."""
    levels = {name: last for name, (_, last) in supported(share_version).items()}
    levels[SHARE_VERSION] = share_version
    return {name: level for name, level in levels.items() if level}
